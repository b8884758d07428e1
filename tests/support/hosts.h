// Machines of a test as network namespaces that a bridge joins: 10.77.0.1, 10.77.0.2, ... Needs root and iproute2.
#pragma once

#include <string>
#include <vector>

namespace tessera::testing {

/// Runs a command; throws with what it said when it fails.
void must_run(const std::vector<std::string>& argv);

class Hosts {
 public:
  /// Why there can be none here; "" when there can.
  static std::string obstacle();

  explicit Hosts(int num_hosts);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// Runs a command on a host: put in front of it.
  std::vector<std::string> on(int host, const std::vector<std::string>& argv) const;
  /// "port0", "port1", ...: another name on each.
  static std::string interface(int host) { return "port" + std::to_string(host); }
  static std::string address(int host) { return "10.77.0." + std::to_string(host + 1); }

  /// A line of the host's own /etc/hosts: what `name` is there.
  void set_name(int host, const std::string& name, const std::string& address);
  void cut_cable(int host) const;
  /// Loses packets of the host: one in a hundred that it sends, and delays them, or two that arrive. "", or why this
  /// kernel cannot.
  std::string lose_packets(int host) const;

 private:
  std::string name_of(int host) const { return prefix_ + std::to_string(host); }
  void add(int host) const;

  const std::string prefix_;
  const int num_hosts_;
};

}  // namespace tessera::testing
