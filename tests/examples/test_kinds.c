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

static option_given given(option_word (*word)(int i), const char *text)
{
    return given_of(choices_of(&(option_row){ .word = word }).text, text);
}

static void assert_made(const void *kind, const void *expected)
{
    if (st_error()) fail_msg("kinds.c: a required option without a default of the program: %s", st_error());
    assert_ptr_equal(kind, expected);
}

TEST(every_kind_can_be_made_with_the_defaults_of_the_program)
{
    for (int i = 0; st_loss_kinds[i]; i++)
        assert_made(loss_chosen((option_given){ i, NULL }, NULL).kind, st_loss_kinds[i]);
    for (int i = 0; st_optim_kinds[i]; i++) {
        auto_optim *o = optim_chosen((option_given){ i, NULL }, NULL);
        assert_made(o ? o->kind : NULL, st_optim_kinds[i]);
    }
    for (int i = 0; st_schedule_kinds[i]; i++)
        assert_made(schedule_chosen((option_given){ i + 1, NULL }, NULL).kind, st_schedule_kinds[i]);
}

TEST(numbers_go_to_the_options_of_their_names)
{
    auto_optim *sgd =
        optim_chosen(given(optim_word, "sgd"), (kind_number[]){ { "momentum", "momentum", ST_ZERO }, { 0 } });
    const st_sgd_options *o = sgd->options;
    assert_true(sgd->lr == 0.01 && o->momentum == 0 && !o->nesterov);
    auto_optim *nesterov =
        optim_chosen(given(optim_word, "sgd"), (kind_number[]){ { "nesterov", "nesterov", 1 }, { 0 } });
    o = nesterov->options;
    assert_true(o->momentum == 0.9 && o->nesterov);
    const st_loss l = loss_chosen(given(loss_word, "cross-entropy"),
                                  (kind_number[]){ { "label-smoothing", "label_smoothing", 0.25 }, { 0 } });
    assert_true(((const st_cross_entropy_options *)(const void *)&l.options)->label_smoothing == 0.25);
}

TEST(a_number_that_the_kind_does_not_have_is_refused)
{
    expect_failure(
        optim_chosen(given(optim_word, "adam"), (kind_number[]){ { "nesterov", "nesterov", 1 }, { 0 } }),
        "--nesterov is not an option of adam");
    loss_chosen(given(loss_word, "mse"),
                (kind_number[]){ { "label-smoothing", "label_smoothing", 0.1 }, { 0 } });
    expect_error("--label-smoothing is not an option of mse");
    schedule_chosen((option_given){ 0, NULL }, (kind_number[]){ { "every", "step_size", 3 }, { 0 } });
    expect_error("--every is not an option of constant");
}

/* Every option of every kind, of a value that it accepts. */
static void try_fields(option_word (*word)(int i), int i, const st_field *fields, void make(option_given))
{
    for (const st_field *f = fields; f && f->name; f++) {
        char text[96];
        const char *value = f->kind == ST_FIELD_BOOL ? "true" : f->kind == ST_FIELD_INT ? "3" : "0.5";
        if (f->least >= 1) value = "2";
        snprintf(text, sizeof text, "%s %s=%s", word(i).text, f->name, value);
        about("%s", text);
        make(given(word, text));
        assert_null(st_error());
        const char *wrong[] = { "x", "", "1e999", "nan", "0.5x" };
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            snprintf(text, sizeof text, "%s %s=%s", word(i).text, f->name, wrong[k]);
            about("%s", text);
            make(given(word, text));
            expect_error("%s", f->name);
        }
    }
}

static void make_loss(option_given g)
{
    loss_chosen(g, NULL);
}

static void make_optim(option_given g)
{
    st_optim_free(optim_chosen(g, NULL));
}

static void make_schedule(option_given g)
{
    schedule_chosen(g, NULL);
}

TEST(every_option_of_a_kind_is_given_after_its_name)
{
    for (int i = 0; st_loss_kinds[i]; i++) try_fields(loss_word, i, st_loss_kinds[i]->fields, make_loss);
    for (int i = 0; st_optim_kinds[i]; i++) try_fields(optim_word, i, st_optim_kinds[i]->fields, make_optim);
    for (int i = 0; st_schedule_kinds[i]; i++)
        try_fields(schedule_word, i + 1, st_schedule_kinds[i]->fields, make_schedule);
    auto_optim *o = optim_chosen(given(optim_word, "rms lr=0.5 centered, momentum=0"), NULL);
    const st_rmsprop_options *r = o->options;
    assert_true(r->lr == 0.5 && r->centered && r->momentum == 0 && r->alpha == 0.99);
    const st_loss l = loss_chosen(given(loss_word, "nll ignore_index=0"), NULL);
    assert_int_equal(((const st_nll_options *)(const void *)&l.options)->ignore_index, 0);
}

TEST(options_after_a_name_that_are_wrong_are_refused)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "adam bta2=0.9", "\"bta2\" is not an option of adam; did you mean beta2?" },
        { "adam zzzzzz=1", "\"zzzzzz\" is not an option of adam; it has lr, beta1" },
        { "adam beta2", "adam: beta2 needs a value, beta2=…" },
        { "adam beta2=2", "adam: beta2 is 2, expected at least 0 and below 1" },
        { "adam lr=0.1 lr=0.1", "adam: lr is given twice" },
        { "sgd nesterov=1", "sgd: nesterov is \"1\", expected true or false" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("%s", cases[i].text);
        expect_failure(optim_chosen(given(optim_word, cases[i].text), NULL), "%s", cases[i].error);
    }
    expect_failure(
        optim_chosen(given(optim_word, "adam lr=0.1"), (kind_number[]){ { "lr", "lr", 0.1 }, { 0 } }),
        "adam: lr is given twice");
    loss_chosen(given(loss_word, "mse delta=1"), NULL);
    expect_error("\"delta\" is not an option of mse, which has none");
    assert_int_equal(given(loss_word, "hubr delta=1").index, -1);
}

TEST(a_loss_is_written_as_the_text_that_is_read)
{
    static const char *const texts[] = { "mse", "huber delta=2.5", "huber delta=0.123456789012345",
                                         "cross-entropy label_smoothing=0.25, ignore_index=7" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const st_loss l = loss_read(texts[i]);
        assert_null(st_error());
        assert_string_equal(loss_write(&l).text, texts[i]);
    }
    loss_read("mean");
    expect_error("loss: expected one of cross-entropy|");
}
