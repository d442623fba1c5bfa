/* kept.c: the list of all that a run keeps: its position, the optimizer's states, and what callbacks keep. A
 * checkpoint writes and reads it, and the ranks of a run begin with the first one's. */
#include "nn/files/kept.h"
#include "tensor/array.h"

#include <math.h>
#include <string.h>

/* ---- the position ------------------------------------------------------------------------------------- */

/* The members are numbers of a file; those up to seed_low are integers. */
typedef struct position {
    double epoch, batch, step, epoch_net_step, net_step, optim_steps, best_epoch, seed_high, seed_low;
    double loss_sum, correct, weight, best_loss, validation_loss, validation_accuracy, predictions;
} position;
enum { POSITION = sizeof(position) / sizeof(double) };

/* The tensors and numbers that a checkpoint of a run has. */
struct train_kept {
    int count; /* of callbacks' */
    kept_item of_callbacks[ST_MAX_KEPT];
    position position;
    bool listed; /* a checkpoint has begun with the list as it is */
};

static const double TWO_32 = 4294967296; /* a seed is two numbers */

static position position_of(const st_run *run)
{
    const trainer *t = run->own;
    position p;
    p.epoch = t->epoch, p.batch = (double)t->batch, p.step = (double)t->step;
    p.epoch_net_step = (double)t->epoch_net_step, p.best_epoch = t->best_epoch;
    p.net_step = (double)run->net->step, p.optim_steps = (double)run->optim->steps;
    p.seed_high = (double)(run->net->seed >> 32), p.seed_low = (double)(run->net->seed & UINT32_MAX);
    p.loss_sum = t->sum.loss, p.correct = t->sum.correct, p.weight = t->sum.weight,
    p.predictions = t->sum.predictions;
    p.best_loss = t->best_loss;
    p.validation_loss = t->validation.loss, p.validation_accuracy = t->validation.accuracy;
    return p;
}

int run_check_position(const st_run *run, const double numbers[])
{
    position p;
    memcpy(&p, numbers, sizeof p);
    const double epochs = run->report.epochs, steps = (double)run->report.batches;
    bool possible = p.epoch >= 1 && p.epoch <= epochs + 1 && p.batch <= (p.epoch > epochs ? 0 : steps) &&
                    p.step == (p.epoch - 1) * steps + p.batch && p.best_epoch < p.epoch &&
                    p.seed_high < TWO_32 && p.seed_low < TWO_32;
    for (const double *n = &p.epoch; n <= &p.seed_low; n++)
        possible &= *n >= 0 && *n < 0x1p53 && *n == floor(*n);
    if (possible) return 0;
    return st_error_set("train: the position is not in this run: %g epochs are done, and %g steps of the "
                        "next, %g steps in all; the run has %g epochs of %g steps",
                        p.epoch - 1, p.batch, p.step, epochs, steps);
}

void run_go_to_position(st_run *run)
{
    trainer *t = run->own;
    const position *p = &t->kept->position;
    t->epoch = (int)p->epoch, t->batch = (long)p->batch, t->step = (long)p->step;
    t->epoch_net_step = (uint64_t)p->epoch_net_step, t->best_epoch = (int)p->best_epoch;
    run->net->step = (uint64_t)p->net_step, run->optim->steps = (long)p->optim_steps;
    run->net->seed = (uint64_t)p->seed_high << 32 | (uint64_t)p->seed_low;
    t->sum = (tally){ p->loss_sum, p->weight, p->correct, p->predictions };
    t->best_loss = p->best_loss;
    t->validation = (st_metrics){ p->validation_loss, p->validation_accuracy };
}

/* ---- the list ----------------------------------------------------------------------------------------- */

static struct train_kept *list_of(st_run *run)
{
    trainer *t = run->own;
    if (!t->kept) t->kept = array_new("train", 1, sizeof *t->kept);
    return t->kept;
}

static const char *const optim[ST_OPTIM_STATES] = { "optim.0", "optim.1", "optim.2" };

static bool is_taken(const struct train_kept *list, const char *name)
{
    bool taken = strcmp(name, "place") == 0;
    for (int i = 0; i < ST_OPTIM_STATES; i++) taken |= strcmp(name, optim[i]) == 0;
    for (int i = 0; i < list->count; i++) taken |= strcmp(name, list->of_callbacks[i].name) == 0;
    return taken;
}

static int keep(st_run *run, const char *name, kept_item k)
{
    if (!run || !run->own || !name || !name[0] || strlen(name) > LONGEST_KEPT)
        return st_error_set("st_run_keep: expected a run and a name of 1 to %d bytes", LONGEST_KEPT);
    struct train_kept *list = list_of(run);
    if (!list) return -1;
    if (is_taken(list, name))
        return st_error_set("train: another callback, or the run itself, keeps \"%s\"", name);
    if (list->listed || list->count == ST_MAX_KEPT)
        return st_error_set("train: \"%s\" cannot be kept: %s", name,
                            list->listed ? "its callback is listed after the checkpoint's"
                                         : "there are too many");
    k.name = name;
    list->of_callbacks[list->count++] = k;
    return 0;
}

int st_run_keep(st_run *run, const char *name, st_tensor value)
{
    return keep(run, name, (kept_item){ .tensor = value });
}

int st_run_keep_numbers(st_run *run, const char *name, int count, double numbers[])
{
    if (numbers && count >= 1 && count <= ST_MAX_NUMBERS)
        return keep(run, name, (kept_item){ .numbers = numbers, .count = count });
    return st_error_set("st_run_keep_numbers: %d numbers, expected 1 to %d", numbers ? count : 0,
                        ST_MAX_NUMBERS);
}

int run_list(st_run *run, kept_item to[MOST_KEPT])
{
    struct train_kept *list = list_of(run);
    int count = 0;
    if (!list) return 0;
    list->listed = true;
    list->position = position_of(run);
    to[count++] = (kept_item){ .name = "place", .numbers = &list->position.epoch, .count = POSITION };
    for (int i = 0; i < run->optim->states; i++)
        to[count++] = (kept_item){ .name = optim[i], .tensor = run->optim->state[i] };
    for (int i = 0; i < list->count; i++) to[count++] = list->of_callbacks[i];
    return count;
}
