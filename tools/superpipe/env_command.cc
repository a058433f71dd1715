#include "tools/superpipe/env_command.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "settings/settings.h"
#include "tools/superpipe/copy_runtime_command.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/installation.h"
#include "tools/superpipe/run_environment.h"
#include "tools/superpipe/run_preparation.h"

namespace superpipe::cli {
namespace {

int fail_env(const std::string& line, int code) {
  std::cerr << "superpipe env: " << line << '\n';
  return code;
}

// What ends a script that evaluates it, and leaves a terminal's shell alone.
std::string ends_script(int code) {
  return "case $- in *i*) ;; *) exit " + std::to_string(code) + " ;; esac\n";
}

// What environment_changes() puts in front of, or follows, besides the settings.
constexpr const char* kOtherVariables[] = {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "XLA_FLAGS",
                                           "SIMGPU_KERNELS"};

bool is_setting(const std::string& variable) {
  return std::ranges::any_of(all_settings(), [&](const Setting& setting) {
    return setting.has_variable() && setting.variable == variable;
  });
}

// As a shell reads it.
std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + '\'';
}

// Kubernetes puts a variable's value in place of $(NAME), and $ in place of $$.
std::string without_references(std::string_view text) {
  std::string plain;
  for (const char c : text) plain += c == '$' ? std::string("$$") : std::string(1, c);
  return plain;
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// The loader only warns of a library that is not there, and the program runs without superpipe. So
// the script looks first. A script that sources it ends; a terminal's shell does not.
std::string shell_text(const std::vector<EnvironmentChange>& changes, const std::string& library) {
  const std::string missing = "superpipe: " + library +
                              " cannot be read, so programs would run without superpipe; install "
                              "it, or copy it there (superpipe copy-runtime)";
  std::string text = "# superpipe " SUPERPIPE_VERSION
                     ": programs that this shell starts run under superpipe.\n"
                     "if [ ! -r " +
                     shell_quoted(library) + " ]; then\n  echo " + shell_quoted(missing) +
                     " >&2\n  " + ends_script(kCannotRun) + "else\n";
  for (const EnvironmentChange& change : changes) {
    text += change.value ? "  export " + change.name + '=' + shell_quoted(*change.value) + '\n'
                         : "  unset " + change.name + '\n';
  }
  return text + "fi\n";
}

std::string json_object(const std::vector<EnvironmentChange>& changes) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const EnvironmentChange& change : changes) {
    const bool is_set = std::getenv(change.name.c_str()) != nullptr;
    // A child inherits what its parent has, and an empty setting is as good as none.
    if (change.value) object[change.name] = *change.value;
    if (!change.value && is_set && is_setting(change.name)) object[change.name] = "";
  }
  return json_text(object, 2) + '\n';
}

std::string docker_lines(const std::vector<EnvironmentChange>& changes) {
  std::string text;
  for (const EnvironmentChange& change : changes) {
    if (change.value) text += change.name + '=' + *change.value + '\n';
  }
  return text;
}

std::string kubernetes_list(const std::vector<EnvironmentChange>& changes) {
  std::string text;
  for (const EnvironmentChange& change : changes) {
    if (!change.value) continue;
    // A string of JSON is one of YAML.
    text += "- name: " + change.name +
            "\n  value: " + json_text(without_references(*change.value), -1) + '\n';
  }
  return text;
}

std::string format_of(const EnvOptions& options) {
  return options.format.empty() ? env_formats().front() : options.format;
}

// In vain for a shell that evaluates what is printed: `eval "$(false)"` goes on. So what refuses is
// printed, too.
int refuse_env(const EnvOptions& options, const std::string& line, int code) {
  if (format_of(options) == "sh") std::cout << ends_script(code) << std::flush;
  return fail_env(line, code);
}

}  // namespace

const std::vector<std::string>& env_formats() {
  static const std::vector<std::string> formats = {"sh", "json", "docker", "k8s"};
  return formats;
}

bool is_for_container(const EnvOptions& options) {
  return options.format == "docker" || options.format == "k8s";
}

void forget_environment() {
  std::vector<EnvironmentChange> changes;
  for (const char* const variable : kOtherVariables) changes.push_back({variable, std::nullopt});
  for (const Setting& setting : all_settings()) {
    if (setting.has_variable()) changes.push_back({setting.variable, std::nullopt});
  }
  apply(changes);
}

std::optional<std::string> problem_with(const EnvOptions& options) {
  const auto& formats = env_formats();
  if (!options.format.empty() && std::ranges::count(formats, options.format) == 0) {
    return "--format " + options.format + ": it takes sh, json, docker or k8s";
  }
  if (!options.runtime.empty()) {
    if (!std::filesystem::path(options.runtime).is_absolute()) {
      return "--runtime " + options.runtime + ": it takes an absolute path";
    }
    if (!loader_can_name(options.runtime)) {
      return "--runtime " + options.runtime +
             ": LD_PRELOAD cannot name a folder with a space, a colon or a semicolon";
    }
  }
  const auto has_lines = [](const std::string& text) {
    return text.find('\n') != std::string::npos;
  };
  if (has_lines(options.runtime) || std::ranges::any_of(options.run.flags, has_lines)) {
    return "a value cannot have several lines";
  }
  if (switched_off()) {
    return "SUPERPIPE_OFF=1 is set, and switches superpipe off for what inherits it; unset it";
  }
  return problem_with(options.run,
                      is_for_container(options) ? FilesOf::kAnotherMachine : FilesOf::kThisMachine);
}

int env_command(const EnvOptions& options) {
  Installation parts = options.runtime.empty() ? this_installation()
                                               : installation_in(runtime_prefix(options.runtime));
  if (!is_for_container(options)) {
    const RunPreparation ready = prepare_environment(options.run, parts);
    if (!ready.ok()) return refuse_env(options, ready.problem, ready.code);
    parts = ready.parts;
  }
  if (!loader_can_name(parts.prefix)) {
    return refuse_env(options,
                      "LD_PRELOAD cannot name " + parts.prefix +
                          ": it has a space, a colon or a semicolon; copy superpipe to another "
                          "folder (superpipe copy-runtime), and name that by --runtime",
                      kCannotRun);
  }
  std::vector<EnvironmentChange> changes = environment_changes(options.run, parts, "");
  std::erase_if(changes, [](const EnvironmentChange& change) {
    return change.name == variable_of(SettingId::kSummary);
  });
  const std::string format = format_of(options);
  errno = 0;
  if (format == "sh") std::cout << shell_text(changes, parts.preload_library);
  if (format == "json") std::cout << json_object(changes);
  if (format == "docker") std::cout << docker_lines(changes);
  if (format == "k8s") std::cout << kubernetes_list(changes);
  std::cout << std::flush;
  if (std::cout.good()) return kSuccess;
  const std::string reason = errno != 0 ? std::string(": ") + std::strerror(errno) : "";
  return fail_env("cannot write standard output" + reason, kBadUsage);
}

}  // namespace superpipe::cli
