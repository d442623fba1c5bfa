/* test_kinds.c: the program knows every loss, optimizer and schedule that the library has, and their
 * options. */
#include "examples/stride/kinds.h"
#include "tests/support.h"

#include <string.h>

/* Word i of a choice is the library's name, which may be shortened where no other word begins so. */
static void assert_word(option_word (*word)(int i), int i, const char *name)
{
    const option_words all = choices_of(&(option_row){ .word = word });
    const option_word w = word(i);
    assert_int_equal(strlen(w.text), strlen(name));
    for (size_t k = 0; k < strlen(name); k++) assert_int_equal(w.text[k], name[k] == '_' ? '-' : name[k]);
    assert_int_equal(choice_of(all.text, w.text), i);
    assert_string_equal(choice_at(all.text, i).text, w.text);
}

TEST(every_kind_of_the_registries_is_a_word_of_the_program)
{
    int i = 0;
    for (; st_loss_kinds[i]; i++) assert_word(loss_word, i, st_loss_kinds[i]->name);
    assert_string_equal(loss_word(i).text, "");
    for (i = 0; st_optim_kinds[i]; i++) assert_word(optim_word, i, st_optim_kinds[i]->name);
    assert_string_equal(optim_word(i).text, "");
    assert_word(schedule_word, 0, "constant");
    for (i = 0; st_schedule_kinds[i]; i++) assert_word(schedule_word, i + 1, st_schedule_kinds[i]->name);
    assert_string_equal(schedule_word(i + 1).text, "");
}

TEST(a_word_may_be_shortened_where_one_begins_so)
{
    static const char words[] = "sgd|adam|adamw|bce-with-logits";
    const struct {
        const char *word;
        int index;
    } cases[] = { { "sgd", 0 }, { "s", 0 },     { "adam", 1 }, { "adamw", 2 }, { "ada", -1 },
                  { "bce", 3 }, { "bcex", -1 }, { "", -1 },    { "sgdx", -1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("%s", cases[i].word);
        assert_int_equal(choice_of(words, cases[i].word), cases[i].index);
    }
}

static int word_number(option_word (*word)(int i), const char *name)
{
    return choice_of(choices_of(&(option_row){ .word = word }).text, name);
}

static void assert_made(const void *kind, const void *expected)
{
    if (st_error()) fail_msg("kinds.c: a required option without a default of the program: %s", st_error());
    assert_ptr_equal(kind, expected);
}

TEST(every_kind_can_be_made_with_the_defaults_of_the_program)
{
    for (int i = 0; st_loss_kinds[i]; i++) assert_made(loss_chosen(i, NULL).kind, st_loss_kinds[i]);
    for (int i = 0; st_optim_kinds[i]; i++) {
        auto_optim *o = optim_chosen(i, NULL);
        assert_made(o ? o->kind : NULL, st_optim_kinds[i]);
    }
    for (int i = 0; st_schedule_kinds[i]; i++)
        assert_made(schedule_chosen(i + 1, NULL).kind, st_schedule_kinds[i]);
}

TEST(numbers_go_to_the_options_of_their_names)
{
    auto_optim *sgd = optim_chosen(word_number(optim_word, "sgd"),
                                   (kind_number[]){ { "momentum", "momentum", ST_ZERO }, { 0 } });
    const st_sgd_options *o = sgd->options;
    assert_true(sgd->lr == 0.01 && o->momentum == 0 && !o->nesterov);
    auto_optim *nesterov =
        optim_chosen(word_number(optim_word, "sgd"), (kind_number[]){ { "nesterov", "nesterov", 1 }, { 0 } });
    o = nesterov->options;
    assert_true(o->momentum == 0.9 && o->nesterov);
    const st_loss l = loss_chosen(word_number(loss_word, "cross-entropy"),
                                  (kind_number[]){ { "label-smoothing", "label_smoothing", 0.25 }, { 0 } });
    assert_true(((const st_cross_entropy_options *)(const void *)&l.options)->label_smoothing == 0.25);
}

TEST(a_number_that_the_kind_does_not_have_is_refused)
{
    expect_failure(optim_chosen(word_number(optim_word, "adam"),
                                (kind_number[]){ { "nesterov", "nesterov", 1 }, { 0 } }),
                   "--nesterov is not an option of adam");
    loss_chosen(word_number(loss_word, "mse"),
                (kind_number[]){ { "label-smoothing", "label_smoothing", 0.1 }, { 0 } });
    expect_error("--label-smoothing is not an option of mse");
    schedule_chosen(0, (kind_number[]){ { "every", "step_size", 3 }, { 0 } });
    expect_error("--every is not an option of constant");
}
