// Takes part in the ledger of host memory until its standard input ends: ledger_holder FOLDER CAP.
//
// Who joins first sets the cap, so that a test can have one smaller than the machine's.
#include <iostream>
#include <string>

#include "policy/units.h"
#include "residency/host/host_ledger.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  superpipe::HostCaps caps;
  caps.host = superpipe::Bytes{std::stoull(argv[2])};
  std::string problem;
  const auto ledger = superpipe::HostLedger::join(caps, argv[1], problem);
  if (ledger == nullptr) {
    std::cerr << problem << '\n';
    return 1;
  }
  std::cout << "joined" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}
