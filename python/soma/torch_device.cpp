/* The device "privateuseone" of torch over Soma's HBM: its allocator, new tensors, views. Everything
 * else is registered from Python (torch_ops.py) or done on the CPU. torch.py compiles it, loads it and
 * gives it three functions; it is not linked to libsoma. */
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

extern "C" { // of Python, which has loaded this
int PyGILState_Ensure(void);
void PyGILState_Release(int);
void PyErr_Fetch(void **, void **, void **);
void PyErr_Restore(void *, void *, void *);
}

namespace {

constexpr auto KIND = c10::DeviceType::PrivateUse1;
constexpr int DEVICES = 64;

/* The place of n bytes that are new on a device; with the reason in `why` if there are none. A place
 * is no address of the host: the host's memory there cannot be touched. Answers are written, not
 * returned: the handler of a signal may raise its error before the first line of a callback. */
using Take = void (*)(int device, size_t n, uint64_t *place, char *why, size_t size);
using Give = void (*)(uint64_t place, int *done);
using Count = void (*)(const char *operation);
Take take;
Give give; // NULL once Python ends
Count count;
thread_local int current;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return KIND; }
  c10::Device getDevice() const override { return c10::Device(KIND, current); }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.has_index())
      current = d.index();
  }
  void setDevice(c10::Device d) const override { uncheckedSetDevice(d); }
  c10::Device exchangeDevice(c10::Device d) const override {
    c10::Device old = getDevice();
    setDevice(d);
    return old;
  }
  c10::Stream getStream(c10::Device d) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, d);
  }
  c10::Stream exchangeStream(c10::Stream s) const noexcept override { return s; }
  c10::DeviceIndex deviceCount() const noexcept override { return DEVICES; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

/* Also while an error of Python goes up, which a function of Python must not meet. */
void free_place(void *place) {
  if (!place || !give)
    return;
  void *error[3];
  int lock = PyGILState_Ensure();
  PyErr_Fetch(&error[0], &error[1], &error[2]);
  int done = 0;
  for (int i = 0; i < 100 && !done; i++)
    give(reinterpret_cast<uint64_t>(place), &done);
  PyErr_Restore(error[0], error[1], error[2]);
  PyGILState_Release(lock);
}

struct Hbm final : c10::Allocator {
  c10::DataPtr allocate(size_t n) const override {
    char why[1024] = "";
    uint64_t found = 0;
    if (n)
      take(current, n, &found, why, sizeof why);
    TORCH_CHECK(!n || found, *why ? why : "a signal came while memory of the device was taken");
    void *place = reinterpret_cast<void *>(found);
    return {place, place, free_place, c10::Device(KIND, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_place; }
};
Hbm hbm;
const c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

struct Here { // while it lives, new tensors are on this device
  int old;
  explicit Here(c10::optional<c10::Device> d) : old(current) {
    if (d && d->has_index())
      current = d->index();
    TORCH_CHECK(current < DEVICES, "there is no device neuron:", current);
  }
  ~Here() { current = old; }
};

at::Tensor empty(at::IntArrayRef size, c10::optional<at::ScalarType> type,
                 c10::optional<at::Layout>, c10::optional<at::Device> device, c10::optional<bool>,
                 c10::optional<at::MemoryFormat> format) {
  Here here(device);
  return at::detail::empty_generic(size, &hbm, KEYS, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                         c10::optional<at::Device> device, c10::optional<bool>) {
  Here here(device);
  return at::detail::empty_strided_generic(size, stride, &hbm, KEYS, c10::dtype_or_default(type));
}

/* Sizes and steps; the memory grows where it must, and keeps what it holds. */
const at::Tensor &resize_(const at::Tensor &self, at::IntArrayRef size,
                          c10::optional<at::MemoryFormat> format) {
  c10::TensorImpl *impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  if (format)
    impl->empty_tensor_restride(*format);
  size_t n = (impl->numel() + impl->storage_offset()) * self.element_size();
  c10::Storage storage = self.storage();
  if (n > storage.nbytes()) {
    at::Tensor more = at::empty({int64_t(n)}, self.options().dtype(at::kByte));
    if (storage.nbytes()) {
      at::Tensor old = at::empty({0}, more.options());
      old.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
      old.unsafeGetTensorImpl()->set_sizes_contiguous({int64_t(storage.nbytes())});
      more.narrow(0, 0, storage.nbytes()).copy_(old);
    }
    c10::Storage grown = more.storage();
    storage.set_data_ptr_noswap(grown.set_data_ptr(c10::DataPtr(nullptr, c10::Device(KIND))));
    storage.set_nbytes(n);
  }
  return self;
}

void fallback(const c10::OperatorHandle &operation, torch::jit::Stack *stack) {
  count(c10::toString(operation.operator_name()).c_str());
  at::native::cpu_fallback(operation, stack);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("resize_", resize_);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

extern "C" __attribute__((visibility("default"))) void soma_torch_begin(Take t, Give g, Count c) {
  take = t;
  give = g;
  count = c;
}
