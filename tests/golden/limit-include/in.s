%include "in.s"
