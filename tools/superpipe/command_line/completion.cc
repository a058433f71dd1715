#include "tools/superpipe/command_line/completion.h"

#include <string_view>

namespace superpipe::cli {
namespace {

constexpr const char* kHead =
    "Generated from the words of superpipe's command line: do not edit.\n";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// `text` with `escape` in front of each character of `special`.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// In single quotes, as bash and zsh read them.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + '\'';
}

// In single quotes, as fish reads them.
std::string fish_quoted(std::string_view text) { return '\'' + escaped(text, "\\'") + '\''; }

std::vector<std::string> flags_of(const SubcommandWords& subcommand) {
  std::vector<std::string> flags;
  for (const Word& word : subcommand.words) {
    flags.insert(flags.end(), word.flags.begin(), word.flags.end());
  }
  return flags;
}

std::vector<std::string> names_of(const CommandWords& command) {
  std::vector<std::string> names;
  for (const SubcommandWords& subcommand : command.subcommands) names.push_back(subcommand.name);
  return names;
}

// ---- bash

std::string_view bash_kind(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNone:
      return "none";
    case ValueKind::kText:
      return "text";
    case ValueKind::kChoice:
      return "choice";
    case ValueKind::kFile:
      return "file";
    case ValueKind::kSize:
      return "size";
    case ValueKind::kProcess:
      return "process";
    case ValueKind::kLog:
      return "log";
  }
  return "text";
}

// An arm of the case statement over "SUBCOMMAND FLAG" or "SUBCOMMAND POSITION".
std::string bash_arm(const std::string& pattern, const Values& values) {
  std::string arm = "    " + pattern + ") kind=" + std::string(bash_kind(values.kind));
  if (values.is_list) arm += " list=yes";
  if (!values.choices.empty()) arm += " choices=" + quoted(joined(values.choices));
  return arm + " ;;\n";
}

std::string bash_arms(const SubcommandWords& subcommand) {
  std::string arms;
  int position = 0;
  for (const Word& word : subcommand.words) {
    if (word.flags.empty()) {
      ++position;
      const std::string place = word.repeats ? "*[0-9]" : std::to_string(position);
      arms += bash_arm(quoted(subcommand.name + " ") + place, word.values);
    } else if (word.values.kind != ValueKind::kNone) {
      std::string pattern;
      for (const std::string& flag : word.flags) {
        pattern += (pattern.empty() ? "" : " | ") + quoted(subcommand.name + ' ' + flag);
      }
      arms += bash_arm(pattern, word.values);
    }
  }
  return arms;
}

constexpr const char* kBashEnd = R"shell(
# Offers those of the words that begin with what was typed. compgen -W would expand them, and so run
# a command substitution that was typed.
_superpipe_offer() {
  local word
  COMPREPLY=()
  for word in "$@"; do [[ $word == "$typed"* ]] && COMPREPLY+=("$word"); done
}

_superpipe_offer_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$typed")
}

# Offers values of the kind and choices at hand.
_superpipe_offer_values() {
  local choice begun= offered=()
  case $kind in
    choice | log)
      # Of a list, what follows the last comma is completed.
      [[ $list && $typed == *,* ]] && begun=${typed%,*},
      for choice in $choices; do offered+=("$begun$choice"); done
      _superpipe_offer "${offered[@]}"
      ;;
    file) _superpipe_offer_files ;;
    size) [[ $typed =~ [0-9]$ ]] && _superpipe_offer "$typed"{K,M,G,T,%} ;;
    process) _superpipe_offer $(superpipe budget 2>/dev/null | while read -r pid rest; do [[ $pid =~ ^[0-9]+$ ]] && echo "$pid"; done) ;;
  esac
}

_superpipe() {
  local typed=${COMP_WORDS[COMP_CWORD]} subcommand=${COMP_WORDS[1]} flag= kind= list= choices= i position=1
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _superpipe_offer $(_superpipe_flags) $(_superpipe_subcommands)
    return
  fi
  # What stands after "--" is another command's.
  for ((i = 2; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -- ]] || continue
    [[ $(_superpipe_starting) == *" $subcommand "* ]] || return
    if declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    elif ((COMP_CWORD == i + 1)); then
      mapfile -t COMPREPLY < <(compgen -c -- "$typed")
    else
      _superpipe_offer_files
    fi
    return
  done
  # The shell makes words of "=" and ":": --policy=lru is three, and --log debug:FILE too.
  if [[ $typed == : || ${COMP_WORDS[COMP_CWORD - 1]} == : ]]; then
    [[ $typed == : ]] && typed=
    _superpipe_offer_files
    return
  fi
  if [[ $typed == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 1]} typed=
  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
  else
    flag=${COMP_WORDS[COMP_CWORD - 1]}
  fi
  if [[ $flag == -* ]]; then
    _superpipe_values "$subcommand $flag"
    if [[ $kind ]]; then
      _superpipe_offer_values
      return
    fi
  fi
  if [[ $typed == -* ]]; then
    _superpipe_offer $(_superpipe_flags "$subcommand")
    return
  fi
  # Which of the words without a flag it is.
  for ((i = 2; i < COMP_CWORD; ++i)); do
    kind=
    if [[ ${COMP_WORDS[i]} == -* ]]; then
      _superpipe_values "$subcommand ${COMP_WORDS[i]}"
      [[ ${COMP_WORDS[i + 1]} == = ]] && ((++i))
      [[ $kind ]] && ((++i))
    else
      ((++position))
    fi
  done
  kind= list= choices=
  _superpipe_values "$subcommand $position"
  if [[ $kind ]]; then
    _superpipe_offer_values
  else
    _superpipe_offer $(_superpipe_flags "$subcommand")
  fi
}

complete -F _superpipe superpipe
)shell";

// ---- zsh

// What _arguments calls for a value.
std::string zsh_action(const Values& values) {
  const std::string choices = escaped(joined(values.choices), ":");
  switch (values.kind) {
    case ValueKind::kChoice:
      return values.is_list ? "_sequence compadd - " + choices : "(" + choices + ")";
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kSize:
      return "_superpipe_size";
    case ValueKind::kProcess:
      return "_superpipe_process";
    case ValueKind::kLog:
      return "_superpipe_log " + choices;
    case ValueKind::kNone:
    case ValueKind::kText:
      break;
  }
  return " ";
}

std::string zsh_word(const Word& word) {
  const std::string meaning = escaped(word.meaning, "[]\\:");
  std::string value;
  if (word.values.kind != ValueKind::kNone) {
    const std::string name = word.placeholder.empty() ? "value" : word.placeholder;
    value = ':' + escaped(name, ":\\") + ':' + zsh_action(word.values);
  }
  if (word.flags.empty()) return "    " + quoted((word.repeats ? "*" : "") + value) + " \\\n";
  const std::string others = joined(word.flags);
  std::string text;
  for (const std::string& flag : word.flags) {
    std::string spec = "(";
    spec.append(others).append(")").append(flag);
    if (!value.empty()) spec += flag.rfind("--", 0) == 0 ? "=" : "+";
    spec.append("[").append(meaning).append("]").append(value);
    text.append("    ").append(quoted(spec)).append(" \\\n");
  }
  return text;
}

constexpr const char* kZshHelpers = R"shell(
# A number gets a unit.
_superpipe_size() {
  [[ $PREFIX == *[0-9] ]] && compadd -- $PREFIX{K,M,G,T,%}
}

_superpipe_process() {
  local -a pids=(${(f)"$(superpipe budget 2>/dev/null | while read -r pid rest; do [[ $pid == [0-9]* ]] && echo $pid; done)"})
  compadd -a pids
}

# A level, and after a colon a file.
_superpipe_log() {
  if compset -P '*:'; then _files; else compadd "$@"; fi
}
)shell";

constexpr const char* kZshEnd = R"shell(
_superpipe() {
  if ((CURRENT == 2)); then
    _superpipe_subcommands
    return
  fi
  local subcommand=$words[2] separator=${words[(i)--]}
  if ((separator < CURRENT)); then
    # What stands after "--" is another command's.
    (($+functions[_superpipe_${subcommand}_flags])) || return 1
    shift $separator words
    ((CURRENT -= separator))
    _normal
    return
  fi
  shift words
  ((--CURRENT))
  (($+functions[_superpipe_${subcommand}_flags])) && _superpipe_${subcommand}_flags
}

_superpipe "$@"
)shell";

// ---- fish

std::string fish_values(const Values& values) {
  const std::string choices = joined(values.choices);
  switch (values.kind) {
    case ValueKind::kChoice:
      return " -x -a " +
             fish_quoted(values.is_list ? "(__superpipe_list " + choices + ")" : choices);
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kSize:
      return " -x -a '(__superpipe_sizes)'";
    case ValueKind::kProcess:
      return " -x -a '(__superpipe_processes)'";
    case ValueKind::kLog:
      return " -x -a " + fish_quoted(choices);
    case ValueKind::kText:
      return " -x";
    case ValueKind::kNone:
      break;
  }
  return "";
}

std::string fish_word(const Word& word, const std::string& condition) {
  std::string text = "complete -c superpipe -n " + fish_quoted(condition);
  for (const std::string& flag : word.flags) {
    text += flag.rfind("--", 0) == 0 ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
  }
  return text + fish_values(word.values) + " -d " + fish_quoted(word.meaning) + '\n';
}

// A word that is no flag. Fish completes files by -F alone, which has no value to require.
std::string fish_position(const Word& word, const std::string& condition) {
  const std::string start = "complete -c superpipe -n " + fish_quoted(condition);
  if (word.values.kind == ValueKind::kFile) return start + " -F\n";
  return start + fish_values(word.values) + " -d " + fish_quoted(word.meaning) + '\n';
}

// Each after a space.
std::string flags_with_value(const SubcommandWords& subcommand) {
  std::string text;
  for (const Word& word : subcommand.words) {
    if (word.values.kind != ValueKind::kNone && !word.flags.empty())
      text += ' ' + joined(word.flags);
  }
  return text;
}

constexpr const char* kFishHelpers = R"shell(
# Whether no subcommand stands there yet.
function __superpipe_begins
    test (count (commandline -opc)) -eq 1
end

# Whether the words are those of the subcommand $argv[1], before any "--".
function __superpipe_in
    set -l words (commandline -opc)
    test (count $words) -ge 2; and string match -q -- $argv[1] $words[2]; and not contains -- -- $words
end

# Whether the word without a flag that comes next is the $argv[2]-th; $argv[3..] are flags with a value.
function __superpipe_at
    __superpipe_in $argv[1]; or return
    set -l position 1
    set -l is_value no
    for word in (commandline -opc)[3..]
        if test $is_value = yes
            set is_value no
        else if contains -- $word $argv[3..]
            set is_value yes
        else if not string match -q -- '-*' $word
            set position (math $position + 1)
        end
    end
    test $is_value = no; and test $position = $argv[2]
end

# Whether the words are those of a command behind "--".
function __superpipe_in_command
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv; and contains -- -- $words
end

# What that command would complete.
function __superpipe_command
    set -l words (commandline -opc)
    set -l separator (contains -i -- -- $words)
    set -e words[1..$separator]
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

# A number gets a unit.
function __superpipe_sizes
    set -l typed (commandline -ct | string replace -r '^-.*=' '')
    string match -qr '[0-9]$' -- $typed; and printf '%s\n' $typed{K,M,G,T,%}
end

# Words with commas between.
function __superpipe_list
    set -l typed (commandline -ct | string replace -r '^-.*=' '')
    set -l begun (string match -r '.*,' -- $typed; or echo)
    printf '%s\n' $begun$argv
end

function __superpipe_processes
    superpipe budget 2>/dev/null | string match -r '^ *[0-9]+' | string trim
end

complete -c superpipe -f
)shell";

}  // namespace

std::string bash_completion(const CommandWords& command) {
  std::string text = std::string("# ") + kHead;
  std::string own;
  std::string starting;
  std::string arms;
  std::string flags;
  for (const Word& word : command.words) own += (own.empty() ? "" : " ") + joined(word.flags);
  for (const SubcommandWords& subcommand : command.subcommands) {
    flags += "    " + subcommand.name + ") echo " + quoted(joined(flags_of(subcommand))) + " ;;\n";
    arms += bash_arms(subcommand);
    if (subcommand.takes_command) starting += ' ' + subcommand.name;
  }
  text += "\n_superpipe_subcommands() { echo " + quoted(joined(names_of(command))) + "; }\n";
  text += "\n# Those that take a command after \"--\".\n_superpipe_starting() { echo " +
          quoted(starting + ' ') + "; }\n";
  text +=
      "\n# The flags of subcommand $1, or those without one.\n_superpipe_flags() {\n  case $1 in\n"
      "    '') echo " +
      quoted(own) + " ;;\n" + flags + "  esac\n}\n";
  text +=
      "\n# Sets kind, list and choices for \"SUBCOMMAND FLAG\", or \"SUBCOMMAND POSITION\" where "
      "a\n"
      "# word has no flag.\n_superpipe_values() {\n  case $1 in\n" +
      arms + "  esac\n}\n";
  return text + kBashEnd;
}

std::string zsh_completion(const CommandWords& command) {
  std::string text = std::string("#compdef superpipe\n# ") + kHead + kZshHelpers;
  text += "\n_superpipe_subcommands() {\n  local -a subcommands=(\n";
  for (const SubcommandWords& subcommand : command.subcommands) {
    text += "    " + quoted(subcommand.name + ':' + escaped(subcommand.purpose, ":\\")) + '\n';
  }
  text += "  )\n  _arguments \\\n";
  for (const Word& word : command.words) text += zsh_word(word);
  text += "    '1:subcommand:{_describe -t subcommands subcommand subcommands}'\n}\n";
  for (const SubcommandWords& subcommand : command.subcommands) {
    text += "\n_superpipe_" + subcommand.name + "_flags() {\n  _arguments -S \\\n";
    for (const Word& word : subcommand.words) text += zsh_word(word);
    text += "    && return\n}\n";
  }
  return text + kZshEnd;
}

std::string fish_completion(const CommandWords& command) {
  std::string text = std::string("# ") + kHead + kFishHelpers;
  for (const Word& word : command.words) text += fish_word(word, "__superpipe_begins");
  std::string starting;
  for (const SubcommandWords& subcommand : command.subcommands) {
    if (subcommand.takes_command) starting += ' ' + subcommand.name;
    text += "\ncomplete -c superpipe -n __superpipe_begins -a " + subcommand.name + " -d " +
            fish_quoted(subcommand.purpose) + '\n';
    int position = 0;
    for (const Word& word : subcommand.words) {
      std::string condition = "__superpipe_in " + subcommand.name;
      if (!word.flags.empty()) {
        text += fish_word(word, condition);
        continue;
      }
      ++position;
      if (!word.repeats) {
        condition = "__superpipe_at " + subcommand.name + ' ' + std::to_string(position) +
                    flags_with_value(subcommand);
      }
      text += fish_position(word, condition);
    }
  }
  return text + "\ncomplete -c superpipe -n " + fish_quoted("__superpipe_in_command" + starting) +
         " -x -a '(__superpipe_command)'\n";
}

}  // namespace superpipe::cli
