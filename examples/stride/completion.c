/* completion.c: stride completion: a script for a shell, which asks `stride complete` for candidates. */
#include "examples/stride/commands.h"

#include <string.h>

static const struct {
    const char *shell, *text;
} shells[] = {
    { "bash",
      "# source <(stride completion bash)\n"
      "_stride() { local IFS=$'\\n'; COMPREPLY=($(\"$1\" complete \"${COMP_WORDS[@]:1:COMP_CWORD}\")); }\n"
      "complete -o default -F _stride stride\n" },
    { "zsh", "#compdef stride\n"
             "_stride() { local -a c; c=(${(f)\"$(${words[1]} complete ${words[2,CURRENT]})\"}); "
             "(( $#c )) && compadd -a c || _files }\n"
             "if [ \"$funcstack[1]\" = _stride ]; then _stride \"$@\"; else compdef _stride stride; fi\n" },
    { "fish", "# stride completion fish | source\n"
              "complete -c stride -a '(stride complete (commandline -opc)[2..] (commandline -ct))'\n" },
};

static int run_completion(void *settings, int count, char **operands)
{
    (void)settings, (void)count;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].shell, operands[0]) == 0) {
            fputs(shells[i].text, stdout);
            return 0;
        }
    return subcommand_refuse(&command_completion, "expected bash, zsh or fish, not \"%s\"", operands[0]);
}

/* Bash splits --name=value into three words; the = is removed. */
int complete(int count, char **words)
{
    int kept = 0;
    const char *name = count > 0 ? words[0] : "";
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], "=") != 0 || i + 1 == count) words[kept++] = words[i];
    if (kept > 0 && strcmp(words[kept - 1], "=") == 0) words[kept - 1] += 1; /* "" */
    for (const subcommand *const *c = subcommands; *c; c++)
        if (kept > 1 && strcmp((*c)->name, name) == 0) subcommand_complete(*c, kept - 1, words + 1, stdout);
        else if (kept < 2 && strncmp((*c)->name, name, strlen(name)) == 0) printf("%s\n", (*c)->name);
    if (kept < 2) put_choices(stdout, "--help|--version", name);
    return subcommand_end(&command_completion);
}

const subcommand command_completion = {
    .name = "completion",
    .what = "Prints a script that makes a shell complete subcommands, options and their values.",
    .usage = "bash|zsh|fish",
    .examples = "  source <(stride completion bash)\n"
                "  stride completion fish >~/.config/fish/completions/stride.fish\n",
    .words = "bash|zsh|fish",
    .least = 1,
    .most = 1,
    .run = run_completion,
};
