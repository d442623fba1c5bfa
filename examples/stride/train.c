/* train.c: stride train: trains a network on a data set. */
#define _DEFAULT_SOURCE /* the number of processors */
#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE
#include "examples/stride/paths.h"
#include "examples/stride/commands.h"
#include "examples/stride/kinds.h"
#include "examples/stride/model.h"
#include "examples/stride/network.h"
#include "examples/stride/one_hot.h"
#include "examples/stride/report.h"
#include "examples/stride/text.h"
#include "examples/stride/dataset.h"
#include <stride.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

typedef struct settings {
    dataset_options source;
    const char *net, *from, *validation;
    option_list freeze;
    double split;
    long epochs, batch, patience, seed, threads, warmup, cutout;
    double lr, momentum, weight_decay, label_smoothing, clip, every, gamma;
    st_augment_options augment;
    option_given optim, schedule, loss;
    bool nesterov, raw, quiet;
    const char *save, *log, *report;
    const char *checkpoint;
    long checkpoint_every;
    bool resume;
} settings;

/* The parts of a run, in the order in which they are made. */
typedef struct job {
    const settings *s;
    dataset from, held;                      /* --data and --validation */
    const st_dataset *training, *validation; /* parts of them; validation may be NULL */
    const st_dataset *held_out;              /* validation before augmentation and normalisation */
    st_net *net, *source;                    /* source: of --from, or NULL */
    int read, unread;                        /* tensors of the net: read from it, or not, */
    char names[256];                         /* and the names of these */
    st_normalization *scale, *target_scale;  /* of inputs and of targets that are numbers; NULL: none */
    st_dataset *own[10];                     /* sets made of sets */
    int owned;
    st_loss loss;
    st_optim *optim;
    st_schedule schedule;
    history history;
    long stopped; /* the step after which an interrupt ended the run; 0: not interrupted */
    st_train_result result;
} job;

/* ---- sets -------------------------------------------------------------------------------------- */

/* Keeps a set made of another; NULL: an error is already set. */
static int own(job *j, const st_dataset **to, st_dataset *made)
{
    if (!made) return -1;
    j->own[j->owned++] = made;
    *to = made;
    return 0;
}

static int open_data(job *j)
{
    dataset_options given = j->s->source;
    given.classes = j->loss.kind->classes;
    return dataset_open(&j->from, &given, j->s->quiet ? NULL : stderr);
}

/* The validation set is --validation, the part that --split holds out, or the data's own test part. */
static int divide_data(job *j)
{
    const settings *s = j->s;
    const st_dataset *all = j->training = j->from.train;
    j->validation = j->from.test;
    if (s->validation) {
        dataset_options alike = s->source;
        st_table columns = j->from.table ? *j->from.table : (st_table){ 0 };
        columns.classes = j->from.classes, columns.class_name = j->from.name;
        alike.data = s->validation;
        alike.like = j->from.table ? &columns : NULL;
        alike.label = alike.features = NULL;
        alike.matched = true;
        alike.classes = j->loss.kind->classes;
        dataset_expect(&alike, &all->x);
        if (dataset_open(&j->held, &alike, NULL) || dataset_match(&j->held, j->from.classes, j->from.name) ||
            dataset_fit(&j->held, j->net->output))
            return -1;
        const st_dataset *held = j->validation = j->held.train;
        if (!st_shape_equal(held->x, all->x) || !st_shape_equal(held->target, all->target))
            return st_error_set("--validation: samples %s with targets %s, those of the data are %s with %s",
                                st_shape_text(held->x).text, st_shape_text(held->target).text,
                                st_shape_text(all->x).text, st_shape_text(all->target).text);
    } else if (s->split > 0) {
        st_dataset *part, *rest;
        if (st_dataset_split(all, s->split, (uint64_t)s->seed, &part, &rest))
            return st_error_within("--split: ");
        own(j, &j->validation, part);
        own(j, &j->training, rest);
    }
    if (s->patience > 0 && !j->validation) return st_error_set("--patience needs --validation or --split");
    return 0;
}

/* True for targets that are numbers and a loss of their differences: they are normalised. */
static bool learns_numbers(const job *j)
{
    return j->training->target.rank > 0 && !j->loss.kind->classes && !j->loss.kind->binary;
}

/* True for classes and a loss of numbers: the targets are one-hot. */
static bool learns_one_hot(const job *j)
{
    return j->from.train->target.rank == 0 && !j->loss.kind->classes;
}

/* Augmentation comes first, then normalisation. */
static int prepare(job *j, const st_dataset **set, const st_augment_options *a)
{
    if (!*set) return 0;
    if (a && (*set)->x.rank != 3)
        return st_error_set("%.200s: samples are %s, and only images [C, H, W] can be augmented",
                            j->from.text, st_shape_text((*set)->x).text);
    if (a && own(j, set, st_dataset_augment_new(*set, *a))) return -1;
    if (j->scale && own(j, set, st_dataset_normalize(*set, j->scale))) return -1;
    if (learns_one_hot(j)) return own(j, set, one_hot_set(*set, j->net->output.n[0]));
    return j->target_scale ? own(j, set, st_dataset_normalize(*set, j->target_scale)) : 0;
}

static int prepare_data(job *j)
{
    const settings *s = j->s;
    st_augment_options a = s->augment;
    const bool augments = a.shift > 0 || a.rotation > 0 || a.scale > 0 || a.shear > 0 || a.flip > 0 ||
                          a.noise > 0 || s->cutout > 0;
    a.cutout = (int)s->cutout;
    a.seed = (uint64_t)s->seed;
    j->held_out = j->validation;
    if (j->source) j->scale = st_net_normalization(j->source);
    else if (!s->raw && !(j->scale = st_normalization_measure(j->training)))
        return st_error_within("%.200s: ", j->from.text);
    if (learns_numbers(j) && j->source) j->target_scale = st_net_target_normalization(j->source);
    else if (learns_numbers(j) && !s->raw) j->target_scale = st_normalization_measure_targets(j->training);
    if (st_error() || prepare(j, &j->training, augments ? &a : NULL)) return -1;
    return prepare(j, &j->validation, NULL);
}

/* ---- the net and its training ----------------------------------------------------------------- */

/* The net of --from, whose metadata also say how data are read. A file of tensors alone, such as PyTorch's,
 * needs a network from the command line. */
static int open_source(job *j, settings *s)
{
    if (!s->from) return 0;
    const int described = st_net_described(s->from);
    if (described == 0 && !s->net)
        return st_error_set("%.200s: tensors without an architecture: give the network, too", s->from);
    if (described > 0 && (j->source = st_net_load(s->from, .batch = 1)))
        dataset_recall(&s->source, j->source);
    return st_error() ? -1 : 0;
}

static void count_match(const char *name, st_net_match how, void *context)
{
    job *j = context;
    size_t used = strlen(j->names);
    if (how == ST_NET_MATCHED) j->read++;
    if (how == ST_NET_MATCHED || how == ST_NET_LEFT_OVER) return;
    j->unread++;
    snprintf(j->names + used, sizeof j->names - used, "%s%s", used ? ", " : "", name);
}

/* Reads the tensors of --from that have the name and shape of one in the net. */
static int take_weights(job *j)
{
    if (!j->s->from) return 0;
    if (st_net_load_matching(j->net, j->s->from, count_match, j) < 0) return -1;
    if (j->read > 0) return 0;
    return st_error_set("%.200s: no tensor has the name and shape of one in the network", j->s->from);
}

static int make_net(job *j)
{
    dataset *from = &j->from;
    j->net =
        j->s->net ? network_read(j->s->net, from->train->x) : st_net_load(j->s->from, .batch = j->s->batch);
    if (!j->net) return -1;
    const st_shape y = j->net->output, target = from->train->target;
    if (dataset_fit(from, y) || dataset_check_classes(from, y)) return -1;
    if (target.rank == 0 && y.rank != 1)
        return st_error_set(
            "the network's output is %s, expected a number for each class: end it with flatten, dense",
            st_shape_text(y).text);
    if (j->loss.kind->classes && target.rank > 0)
        return st_error_set("--loss %s needs classes, a number for each sample; the targets are %s, "
                            "numbers to predict: use %s",
                            loss_word(j->s->loss.index).text, st_shape_text(target).text,
                            losses_of_numbers().text);
    if (target.rank > 0 && !st_shape_equal(y, target))
        return st_error_set("the network's output is %s, the targets are %s", st_shape_text(y).text,
                            st_shape_text(target).text);
    if (st_net_build(j->net, j->s->batch, (uint64_t)j->s->seed)) return -1;
    return take_weights(j);
}

static st_loss make_loss(const settings *s)
{
    return loss_chosen(
        s->loss, (kind_number[]){ { "label-smoothing", "label_smoothing", s->label_smoothing }, { 0 } });
}

static st_optim *make_optim(const settings *s)
{
    return optim_chosen(s->optim, (kind_number[]){ { "lr", "lr", s->lr },
                                                   { "momentum", "momentum", s->momentum },
                                                   { "weight-decay", "weight_decay", s->weight_decay },
                                                   { "nesterov", "nesterov", s->nesterov },
                                                   { 0 } });
}

static st_schedule make_schedule(const settings *s)
{
    const st_schedule after = schedule_chosen(
        s->schedule,
        (kind_number[]){ { "every", "step_size", s->every }, { "gamma", "gamma", s->gamma }, { 0 } });
    return s->warmup > 0 ? st_warmup_lr(.steps = s->warmup, .after = after) : after;
}

/* Notes how eval finds the samples again: the training set before --split, and how it was split. */
static int note_training(job *j)
{
    const settings *s = j->s;
    char split[32] = "", seed[32];
    const dataset_identity id = dataset_identify(j->from.train);
    if (s->split > 0) snprintf(split, sizeof split, "%.15g", s->split);
    snprintf(seed, sizeof seed, "%ld", s->seed);
    if (st_error() || st_net_set_metadata(j->net, "trained_on", id.text)) return -1;
    return st_net_set_metadata(j->net, "split", *split ? split : NULL) ||
                   st_net_set_metadata(j->net, "split_seed", *split ? seed : NULL)
               ? -1
               : 0;
}

/* Metadata that eval and predict need, in checkpoints too. */
static int note(job *j)
{
    st_net *n = j->net;
    if (note_training(j)) return -1;
    if (dataset_note(n, &j->from) || st_net_set_metadata(n, "loss", loss_write(&j->loss).text)) return -1;
    if (st_net_set_metadata(n, "one_hot", learns_one_hot(j) ? "true" : NULL)) return -1;
    if (j->scale && st_net_set_normalization(n, j->scale)) return -1;
    if (j->target_scale && st_net_set_normalization(n, j->target_scale)) return -1;
    return j->from.classes > 0 ? st_net_set_classes(n, j->from.classes, j->from.name) : 0;
}

/* The first interrupt ends the run after its step, and the net is saved; the second ends the program. */
static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void await_interrupt(void)
{
    struct sigaction first = { .sa_handler = interrupt, .sa_flags = SA_RESETHAND };
    struct sigaction before;
    sigemptyset(&first.sa_mask);
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &first, NULL);
}

/* Reads the epochs of an earlier call from its log. */
static int recall(job *j, int before)
{
    const settings *s = j->s;
    return s->resume && s->log && j->history.count == 0 && before > 1
               ? log_recall(s->log, before, &j->history)
               : 0;
}

static void watch(st_callback *self, st_run *run, st_event event)
{
    job *j = self->context;
    if (interrupted && event == ST_ON_STEP) run->stop = true, j->stopped = run->report.step;
    if (event != ST_ON_EPOCH || st_error()) return;
    if (recall(j, run->report.epoch) == 0) history_keep(&run->report, &j->history);
}

static int learn(job *j)
{
    const settings *s = j->s;
    await_interrupt();
    st_callback early = { 0 }, checkpoint = { 0 };
    if (s->patience > 0) early = st_early_stopping(.patience = (int)s->patience);
    if (s->checkpoint)
        checkpoint =
            st_checkpoint(.path = s->checkpoint, .every = (int)s->checkpoint_every, .resume = s->resume);
    st_train_options o = { .loss = j->loss,
                           .optim = j->optim,
                           .epochs = (int)s->epochs,
                           .batch = (int)s->batch,
                           .schedule = j->schedule,
                           .validation = j->validation,
                           .seed = (uint64_t)s->seed,
                           .callbacks = { st_detect_anomaly(),
                                          st_clip(.norm = s->clip),
                                          st_progress(s->quiet ? NULL : stderr),
                                          st_log(s->log),
                                          { "history", watch, j },
                                          early,
                                          checkpoint } };
    for (int i = 0; i < s->freeze.count; i++)
        o.groups[i] = (st_param_group){ s->freeze.text[i], .frozen = true };
    return st_train_run(j->net, j->training, o, &j->result) ? -1 : recall(j, j->result.epochs + 1);
}

/* ---- results ----------------------------------------------------------------------- */

static const char *path_of(void *context, ptrdiff_t sample)
{
    return dataset_path(((const job *)context)->held_out, sample);
}

static char *text_of_net(const st_net *n)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (to) network_write(n, to);
    if (to) fclose(to);
    return text;
}

static int write_report(job *j)
{
    const settings *s = j->s;
    char date[40], seed[32], samples[80], training[320], machine[200], resumed[320] = "";
    struct utsname about = { 0 };
    time_t now = time(NULL);
    layer_times times = { 0 };
    uname(&about);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M %Z", localtime(&now));
    snprintf(machine, sizeof machine, "%.40s %.40s, %.60s, %ld processors, %s", about.sysname, about.machine,
             about.nodename, sysconf(_SC_NPROCESSORS_ONLN), ST_REAL_NAME);
    snprintf(seed, sizeof seed, "%ld", s->seed);
    snprintf(samples, sizeof samples, "%td to train on, %td to validate", j->training->count,
             j->validation ? j->validation->count : 0);
    snprintf(training, sizeof training, "%s, %s, lr %g, schedule %s, batches of %ld",
             loss_write(&j->loss).text, j->optim->kind->name, j->optim->lr,
             schedule_word(s->schedule.index).text, s->batch);
    if (j->result.resumed > 0 && (j->history.count == 0 || j->history.epochs[0].epoch > 1))
        snprintf(resumed, sizeof resumed,
                 "after step %ld, from %.200s; without --log earlier epochs are not shown", j->result.resumed,
                 s->checkpoint);
    const char *prepared = j->training->prepared;
    const report_fact facts[] = {
        { "date", date },
        { "command", command_line },
        { "data", j->from.text },
        { "samples", samples },
        { "preparation", prepared ? prepared : "none" },
        { "training", training },
        { "seed", seed },
        { "saved as", s->save },
        { "machine", machine },
        { "stride", ST_VERSION },
        { resumed[0] ? "resumed" : NULL, resumed },
        { NULL, NULL },
    };
    char *network = s->net ? network_text(s->net) : text_of_net(j->net), title[160];
    snprintf(title, sizeof title, "Training on %.140s", j->from.text);
    int status = layer_times_measure(&times, j->net, j->training, j->loss, 0);
    if (status == 0)
        status = report_write(s->report, &(report){ .title = title,
                                                    .network = network,
                                                    .facts = facts,
                                                    .epochs = j->history.epochs,
                                                    .count = j->history.count,
                                                    .net = j->net,
                                                    .loss = j->loss,
                                                    .validation = j->validation,
                                                    .classes = j->from.classes ? j->from.name : NULL,
                                                    .times = &times,
                                                    .path_of = path_of,
                                                    .context = j });
    layer_times_free(&times);
    free(network);
    return status;
}

static double loss_at(const history *h, int i, bool validated)
{
    return validated ? h->epochs[i].validation.loss : h->epochs[i].training.loss;
}

/* One line: "training loss ▇▅▃▂▁▁ 2.31 to 0.042"; each of at most 50 characters is the mean of
 * several epochs. */
static void print_curve(const history *h, bool validated)
{
    static const char *const levels[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    const int count = h->count, columns = count < 50 ? count : 50;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < count; i++) {
        low = fmin(low, loss_at(h, i, validated));
        high = fmax(high, loss_at(h, i, validated));
    }
    if (count < 2 || !(low <= high)) return;
    printf("%-15s ", validated ? "validation loss" : "training loss");
    for (int i = 0; i < columns; i++) {
        const int first = i * count / columns, last = (i + 1) * count / columns;
        double sum = 0;
        for (int k = first; k < last; k++) sum += loss_at(h, k, validated);
        const double part = high > low ? (sum / (last - first) - low) / (high - low) : 0;
        fputs(isnan(sum) ? " " : levels[lround(7 * part)], stdout);
    }
    printf(" %.4g to %.4g\n", loss_at(h, 0, validated), loss_at(h, count - 1, validated));
}

/* The files that a run writes: their options, and their names in its output. */
static const struct {
    const char *option, *what;
    size_t offset;
} written[] = {
    { "save", "net", AT(save) },
    { "checkpoint", "checkpoint", AT(checkpoint) },
    { "log", "log", AT(log) },
    { "report", "report", AT(report) },
};
enum { WRITTEN = sizeof written / sizeof *written };

static const char *path_written(const settings *s, int i)
{
    return *(const char *const *)((const char *)s + written[i].offset);
}

static void print_files(const settings *s)
{
    for (int i = 0; i < WRITTEN; i++)
        if (path_written(s, i)) {
            fputs(written[i].what, stdout);
            text_put_in(stdout, ": ", path_written(s, i), "\n");
        }
}

static void print_best(const job *j)
{
    const st_train_report *best = NULL;
    for (int i = 0; i < j->history.count; i++)
        if (j->history.epochs[i].best) best = &j->history.epochs[i];
    if (!best) return;
    printf("best: epoch %d, validation loss %.4f", best->epoch, best->validation.loss);
    if (!isnan(best->validation.accuracy)) printf(", accuracy %.4f", best->validation.accuracy);
    putchar('\n');
}

/* How an interrupted run goes on. */
static void print_interrupt(const job *j)
{
    const char *from = j->s->checkpoint;
    if (!j->stopped) return;
    printf("interrupted after step %ld: to ", j->stopped);
    if (from) text_put_in(stdout, "continue from ", from, ", repeat the command with --resume\n");
    else text_put_in(stdout, "train these weights further, use --from ", j->s->save, "\n");
}

static void print_result(const job *j)
{
    bool validated = j->validation && !isnan(j->result.validation.loss);
    const st_metrics *score = validated ? &j->result.validation : &j->result.training;
    printf("%s", validated ? "validation" : "training");
    if (!isnan(score->accuracy)) printf(" accuracy=%.4f", score->accuracy);
    if (!isnan(score->loss)) printf(" loss=%.4f", score->loss); /* NaN: interrupted in the first epoch */
    printf(" epochs=%d seconds=%.2f samples_per_second=%.0f\n", j->result.epochs, j->result.seconds,
           j->result.samples_per_second);
}

/* Why the network will train slowly, or not at all. NULL: nothing is known. */
static const char *hint(const job *j)
{
    const st_layer *root = j->net->root;
    const char *last = root->children > 0 ? root->child[root->children - 1]->type->name : "";
    const char *loss = j->loss.kind->name;
    if (strcmp(loss, "cross_entropy") == 0 && strcmp(last, "softmax") == 0)
        return "Cross-entropy includes the softmax: remove it from the end of the network.";
    if (strcmp(loss, "bce_with_logits") == 0 && strcmp(last, "sigmoid") == 0)
        return "The loss bce includes the sigmoid: remove it from the end of the network.";
    if (strcmp(loss, "nll") == 0 && strcmp(last, "log_softmax") != 0)
        return "The loss nll takes logarithms of probabilities: end the network with log_softmax.";
    const ptrdiff_t batches = (j->training->count - 1) / j->s->batch + 1;
    if (j->s->warmup / batches >= j->s->epochs)
        return "The run ends before the warm-up does: the learning rate does not reach its peak.";
    return NULL;
}

/* ---- the subcommand ---------------------------------------------------------------------------- */

static int print_head(const job *j)
{
    text_put(stdout, j->from.text);
    printf(": %td samples to train on", j->training->count);
    if (j->validation) printf(", %td to validate", j->validation->count);
    printf("\n");
    dataset_print_table(&j->from, stdout);
    printf("\n");
    if (j->s->resume) {
        bool there = access(j->s->checkpoint, F_OK) == 0;
        text_put_in(stdout, there ? "resuming from " : "", j->s->checkpoint,
                    there ? "\n\n" : " does not exist: starting from the beginning\n\n");
    }
    if (st_net_summary(j->net, j->s->batch, stdout)) return -1;
    printf("\n");
    if (j->s->from) {
        printf("%d tensor%s", j->read, j->read == 1 ? "" : "s");
        text_put_in(stdout, " from ", j->s->from, "");
        if (j->unread > 0) printf("; %d initialised: %s", j->unread, j->names);
        printf("\n\n");
    }
    if (j->target_scale) printf("Targets are normalised: so are the losses of training and validation.\n\n");
    const char *advice = hint(j);
    if (advice) printf("%s\n\n", advice);
    return fflush(stdout);
}

/* Checks that every file can be written. */
static int check_files(const settings *s)
{
    for (int i = 0; i < WRITTEN; i++) {
        const char *path = path_written(s, i);
        if (path && (path == s->log ? log_check(path) : path_writable(path))) return -1;
    }
    return 0;
}

/* If the file cannot be written, the net is saved in the folder for temporary files. */
static int save(job *j)
{
    const char *path = j->s->save;
    char second[LONGEST_PATH], why[ST_ERROR_SIZE];
    if (st_net_save(j->net, path) == 0) return 0;
    snprintf(why, sizeof why, "%s", st_error());
    st_error_clear();
    snprintf(second, sizeof second, "%s/stride-%ld.safetensors", path_temporary(), (long)getpid());
    if (st_net_save(j->net, second) == 0) return st_error_set("%.300s; the net is in %.180s", why, second);
    st_error_clear();
    return st_error_set("%s", why);
}

static int train_all(job *j)
{
    const settings *s = j->s;
    j->loss = make_loss(s);
    j->optim = make_optim(s);
    j->schedule = make_schedule(s);
    if (st_error()) return -1;
    if ((s->net && network_check(s->net)) || dataset_check(s->source.data) || dataset_check(s->validation))
        return -1;
    if (check_files(s) || open_data(j) || make_net(j) || divide_data(j) || prepare_data(j)) return -1;
    if (!s->quiet && print_head(j)) return -1;
    if (note(j) || learn(j) || save(j)) return -1;
    if (s->report && write_report(j)) return -1;
    if (!s->quiet) {
        print_curve(&j->history, false);
        print_curve(&j->history, true);
        print_files(s);
        print_best(j);
        print_interrupt(j);
    }
    print_result(j);
    return 0;
}

static void release(job *j)
{
    history_free(&j->history);
    st_optim_free(j->optim);
    while (j->owned > 0) st_dataset_free(j->own[--j->owned]);
    st_normalization_free(j->scale);
    st_normalization_free(j->target_scale);
    st_net_free(j->net);
    st_net_free(j->source);
    dataset_close(&j->held);
    dataset_close(&j->from);
}

/* Refuses a file that is written twice, or both read and written. */
static int check_distinct(const settings *s)
{
    for (int i = 0; i < WRITTEN; i++) {
        const char *path = path_written(s, i), *other = NULL;
        for (int k = i + 1; k < WRITTEN && !other; k++)
            if (path_same(path, path_written(s, k))) other = written[k].option;
        if (path_same(path, s->net)) other = "net";
        if (dataset_names(s->source.data, path)) other = "data";
        if (dataset_names(s->validation, path)) other = "validation";
        if (other)
            return subcommand_refuse(&command_train, "--%s and --%s are the same file, %s", written[i].option,
                                     other, path);
    }
    return 0;
}

/* Errors of the command line, found before anything is opened. */
static int check_options(const settings *s)
{
    const subcommand *c = &command_train;
    if (!s->net && !s->from)
        return subcommand_refuse(c, "no network: a file, or a text such as 'conv 32 3x3, relu, dense 10'");
    if (s->net && dataset_likely(s->net))
        return subcommand_refuse(c, "%.200s is data, not a network; it is given by --data", s->net);
    if (s->net && path_is_model(s->net) && access(s->net, F_OK) == 0)
        return subcommand_refuse(c, "%.200s is a saved net; to train it further, use --from", s->net);
    if (s->validation && s->split > 0) return subcommand_refuse(c, "--validation or --split, not both");
    if (!s->checkpoint && (s->resume || s->checkpoint_every > 0))
        return subcommand_refuse(c, "--%s needs --checkpoint FILE",
                                 s->resume ? "resume" : "checkpoint-every");
    return check_distinct(s);
}

/* The exit status of an interrupted run: that of the interrupt, so that shells and make stop, too. */
static int end_by_interrupt(void)
{
    if (subcommand_end(&command_train)) return 1;
    raise(SIGINT);
    return 128 + SIGINT;
}

static int run(void *settings_, int count, char **operands)
{
    settings *s = settings_;
    job j = { .s = s };
    (void)count, (void)operands;
    if (check_options(s)) return 2;
    if (open_source(&j, s) == 0) train_all(&j);
    release(&j);
    return j.stopped ? end_by_interrupt() : 0;
}

#define MOST_COUNT 1e9

static const option_row options[] = {
    { "net", 'n', OPTION_TEXT, AT(net), "NET",
      .help = "the network: a file, or its text such as 'conv 32 3x3, relu, maxpool 2, dense 10' (stride "
              "help network)" },
    { "from", 'f', OPTION_TEXT, AT(from), "FILE",
      .help = "begin with a saved net: its tensors are read where names and shapes match, data are read and "
              "normalised as they were for it, and without NET its layers are used, too; with NET the file "
              "may hold tensors alone, as PyTorch's do" },
    { "freeze", 'F', OPTION_LIST, AT(freeze), "NAMES",
      .help =
          "do not train these parameters: those of a layer, 0 or 3.body, or of a pattern, '*.bias'; may be "
          "given several times" },
    DATASET_OPTIONS,
    { "validation", 'V', OPTION_TEXT, AT(validation), "PATH",
      .help = "a data set to validate on; default: the test part of --data, if there is one" },
    { "split", 'S', OPTION_NUMBER, AT(split), "X", NULL,
      "hold out this fraction of the data, of each class, to validate on", 0, 0.99 },
    { "epochs", 'e', OPTION_INTEGER, AT(epochs), "N", "10", "passes over the data", 1, 1e6 },
    { "batch", 'b', OPTION_INTEGER, AT(batch), "N", "64", "samples per step", 1, 65536 },
    { "lr", 'l', OPTION_NUMBER, AT(lr), "X", NULL, "peak learning rate; default: 0.001, 0.01 for sgd", 0,
      1e6 },
    { "optim", 'O', OPTION_KIND, AT(optim), NULL, "adam",
      "the optimizer, and options of it: 'adam beta2=0.99'", .word = optim_word },
    { "momentum", 0, OPTION_NUMBER, AT(momentum), "X", NULL,
      "momentum, if the optimizer has one; default: 0, 0.9 for sgd", 0, 1 },
    { "nesterov", 0, OPTION_FLAG, AT(nesterov), .help = "use Nesterov's momentum with sgd" },
    { "weight-decay", 0, OPTION_NUMBER, AT(weight_decay), "X", NULL,
      "weight decay; default: 0, 0.01 for adamw", 0, 1e6 },
    { "schedule", 0, OPTION_KIND, AT(schedule), NULL, "cosine",
      "how the learning rate changes, and options: 'one-cycle pct_start=0.2'", .word = schedule_word },
    { "every", 0, OPTION_NUMBER, AT(every), "X", NULL,
      "epochs between the steps of schedule step; default: 10", 1e-3, 1e6 },
    { "gamma", 0, OPTION_NUMBER, AT(gamma), "X", NULL,
      "the factor of each step of schedule step; default: 0.1", 1e-9, 1 },
    { "warmup", 0, OPTION_INTEGER, AT(warmup), "N", NULL,
      "steps over which the learning rate rises at the beginning", 0, MOST_COUNT },
    { "loss", 0, OPTION_KIND, AT(loss), NULL, "cross-entropy",
      "the loss that training minimizes, and options of it: 'huber delta=2'; for losses of numbers classes "
      "are "
      "one-hot",
      .word = loss_word },
    { "label-smoothing", 0, OPTION_NUMBER, AT(label_smoothing), "X", NULL, "label smoothing of cross-entropy",
      0, 0.999 },
    { "clip", 0, OPTION_NUMBER, AT(clip), "X", NULL, "clip the norm of the gradients to X", 0, 1e9 },
    { "patience", 'P', OPTION_INTEGER, AT(patience), "N", NULL,
      "stop after N epochs without a better validation loss, and restore the best net", 0, 1e6 },
    { "shift", 0, OPTION_NUMBER, AT(augment.shift), "PX", NULL, "augment: shift images by up to PX pixels", 0,
      1e4 },
    { "rotation", 0, OPTION_NUMBER, AT(augment.rotation), "DEG", NULL,
      "augment: rotate images by up to DEG degrees", 0, 180 },
    { "scale", 0, OPTION_NUMBER, AT(augment.scale), "X", NULL, "augment: scale images by 1 ± X", 0, 0.99 },
    { "shear", 0, OPTION_NUMBER, AT(augment.shear), "DEG", NULL, "augment: shear images by up to DEG degrees",
      0, 89 },
    { "flip", 0, OPTION_NUMBER, AT(augment.flip), "P", NULL,
      "augment: flip images left to right with probability P", 0, 1 },
    { "noise", 0, OPTION_NUMBER, AT(augment.noise), "X", NULL,
      "augment: add Gaussian noise of standard deviation X", 0, 1e3 },
    { "cutout", 0, OPTION_INTEGER, AT(cutout), "PX", NULL, "augment: set a square of PX by PX pixels to zero",
      0, 1e4 },
    { "no-normalize", 0, OPTION_FLAG, AT(raw),
      .help =
          "do not normalise each channel, nor targets of mse and huber, to mean 0 and standard deviation 1" },
    { "seed", 's', OPTION_INTEGER, AT(seed), "N", "1", "seed of parameters, order, augmentation and --split",
      0, 1e15 },
    THREADS_OPTION,
    { "save", 'o', OPTION_TEXT, AT(save), "FILE", MODEL_FILE, "the trained net" },
    { "log", 'L', OPTION_TEXT, AT(log), "FILE", .help = "a log with a line for each epoch, .csv or .jsonl" },
    { "report", 'R', OPTION_TEXT, AT(report), "FILE", .help = "a report of the run as a page, .html" },
    { "checkpoint", 'c', OPTION_TEXT, AT(checkpoint), "FILE",
      .help = "write a checkpoint after each epoch, which is also a saved net" },
    { "checkpoint-every", 0, OPTION_INTEGER, AT(checkpoint_every), "STEPS", NULL,
      "also write the checkpoint every STEPS steps", 1, MOST_COUNT },
    { "resume", 'r', OPTION_FLAG, AT(resume),
      .help = "resume from --checkpoint, if it exists, with bit-identical results" },
    { "quiet", 'q', OPTION_FLAG, AT(quiet), .help = "print the result only" },
    { 0 },
};

const subcommand command_train = {
    .name = "train",
    .what = "Trains a network on a data set and saves it.",
    .usage = "NET|--from FILE [--data PATH] [options]",
    .details =
        "The last line on stdout is the result; progress goes to stderr. An interrupt (Ctrl-C) ends the "
        "run after its step and saves the net, with exit status 130; a second one ends the program at once. "
        "Results depend on the "
        "seed, but not on the number of threads.",
    .examples =
        "  stride train 'conv 32 3x3, relu, maxpool 2, dense 10' --epochs 3\n"
        "  stride train 'conv 32 3x3 padding=same, relu, maxpool 2, dense 2' --data pictures \\\n"
        "      --size 64x64 --split 0.2 --flip 0.5 --rotation 10 --report run.html\n"
        "  stride train 'dense 16, relu, dense 3' --data flowers.csv --split 0.2 --epochs 60 \\\n"
        "      --batch 8 --lr 0.01\n"
        "  stride train 'conv 32 3x3 padding=same, relu, maxpool 2, dense 3' --data more_pictures \\\n"
        "      --from model.safetensors --freeze 0 --split 0.2 --save more.safetensors\n"
        "  stride train lenet5.net --epochs 50 --checkpoint run.safetensors --resume\n",
    .operands = { "net" },
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
