// What tests/simgrid/plan.c prints, carried out by SimGrid: flows that share links by max-min fairness, in place of
// messages that links serve first come first served. Prints the time in ns.
//   links FILE
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

struct Step {
  char kind;         // w wait, a add, p push
  unsigned to, sem;  // to: a rank or, of an add, a core
  unsigned n;
  double bytes;
};
struct Sequencer { // a host of its own, whose DMA rings are its way to the links of its device
  unsigned rank, core;
  std::vector<Step> steps;
  sg::Host* host;
  unsigned rings() const {
    unsigned n = 1;
    for (const Step& s : steps)
      if (s.kind == 'p') n = std::max(n, s.n);
    return n;
  }
};

static std::vector<Sequencer> sequencers;
static std::map<unsigned long, unsigned> sems; // by rank, core, semaphore
static unsigned ranks_of_device = 1;
static sg::MutexPtr mutex;
static sg::ConditionVariablePtr changed;
static std::vector<sg::Host*> hosts;
static std::map<std::pair<sg::Host*, sg::Host*>, size_t> hops;
static double source = 1e12; // bytes per s of a DMA ring
static double last = 0;
static const double HOP = 200e-9; // LINK_LAT and LINK_HOP of plan.c

static unsigned long key(unsigned rank, unsigned core, unsigned sem) { return (rank * 2ul + core) * 256 + sem; }

static void raise(unsigned long k, unsigned n) {
  std::unique_lock lock(*mutex);
  sems[k] += n;
  changed->notify_all();
}

// What a sequencer pushes to a peer leaves in order. The time from a link's end to the next begins when it has left, so that is
// not a latency of SimGrid's links, which comes before.
static void push(sg::Host* from, unsigned core, const Step& s, sg::MutexPtr queue) {
  sg::Host* to = hosts[s.to / ranks_of_device];
  {
    std::unique_lock lock(*queue);
    sg::Comm::sendto(from, to, s.bytes);
  }
  sg::this_actor::sleep_for(HOP * hops[{from, to}]);
  raise(key(s.to, core, s.sem), s.n);
}

static void run(const Sequencer* q) {
  sg::Host* here = q->host;
  std::map<unsigned, sg::MutexPtr> queues;
  for (const Step& s : q->steps)
    if (s.kind == 'w') {
      std::unique_lock lock(*mutex);
      unsigned& value = sems[key(q->rank, q->core, s.sem)];
      while (value < s.n) changed->wait(lock);
      value -= s.n;
    } else if (s.kind == 'a') {
      raise(key(q->rank, s.to, s.sem), s.n);
    } else {
      sg::MutexPtr& queue = queues[s.to];
      if (!queue) queue = sg::Mutex::create();
      sg::Actor::create("push", here, push, here, q->core, s, queue);
    }
  last = std::max(last, sg::Engine::get_clock());
}

int main(int argc, char** argv) {
  sg::Engine e(&argc, argv);
  std::ifstream in(argv[1]);
  std::string line, word;
  std::vector<sg::Link*> links;
  std::map<std::pair<unsigned, unsigned>, std::vector<sg::LinkInRoute>> ways; // between devices
  auto* zone = sg::create_full_zone("devices");
  sg::Link* within = zone->create_link("within", 1e15)->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE)->set_latency(0)->seal();
  while (std::getline(in, line)) {
    std::istringstream at(line);
    unsigned a = 0, b = 0, c = 0;
    double x = 0;
    at >> word;
    if (word == "devices") {
      at >> a >> ranks_of_device;
      for (unsigned i = 0; i < a; i++) {
        hosts.push_back(zone->create_host("device" + std::to_string(i), 1e9)->seal());
        ways[{i, i}].emplace_back(within);
      }
    } else if (word == "source") {
      at >> x;
      source = x * 1e6;
    } else if (word == "link") { // thousandths of a byte per ns
      at >> a >> x;
      links.push_back(zone->create_link("link" + std::to_string(a), x * 1e6)->set_latency(0)->seal());
    } else if (word == "route") {
      at >> a >> b;
      while (at >> c) ways[{a, b}].emplace_back(links[c]);
    } else if (word == "sequencer") {
      at >> a >> b;
      sequencers.push_back({a, b, {}, nullptr});
    } else if (word == "wait") {
      at >> a >> b;
      sequencers.back().steps.push_back({'w', 0, a, b, 0});
    } else if (word == "add") {
      at >> a >> b >> c;
      sequencers.back().steps.push_back({'a', a, b, c, 0});
    } else if (word == "push") {
      at >> a >> b >> c >> x;
      sequencers.back().steps.push_back({'p', a, b, c, x});
    }
  }
  for (Sequencer& q : sequencers) {
    const std::string name = "cc" + std::to_string(&q - sequencers.data());
    const sg::Link* rings = zone->create_link(name, source * q.rings())->set_latency(0)->seal();
    q.host = zone->create_host(name, 1e9)->seal();
    for (unsigned b = 0; b < hosts.size(); b++) {
      const auto& way = ways[{q.rank / ranks_of_device, b}];
      std::vector<sg::LinkInRoute> all{sg::LinkInRoute(rings)};
      all.insert(all.end(), way.begin(), way.end());
      hops[{q.host, hosts[b]}] = way.size();
      zone->add_route(q.host->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr, all, false);
    }
  }
  zone->seal();
  mutex = sg::Mutex::create();
  changed = sg::ConditionVariable::create();
  for (const Sequencer& q : sequencers) sg::Actor::create("cc", hosts[q.rank / ranks_of_device], run, &q);
  e.run();
  std::printf("%.3f\n", last * 1e9);
}
