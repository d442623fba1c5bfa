/* report.c: the sections of the page. It is both HTML and XML, and forbids scripts and loading. */
#include "examples/stride/report.h"
#include "examples/stride/page.h"
#include "examples/stride/scores.h"
#include "nn/files/replace.h"

#include <math.h>
#include <string.h>

enum {
    MOST_IN_TABLE = 20, /* with more classes there is a table of the most frequent mistakes only */
    MOST_CONFUSED = 12, /* pairs of classes in it */
    MOST_FILTERS = 64
};

typedef struct page {
    const report *r;
    FILE *to;
    scores found;
    int best; /* of the epochs; -1: none */
} page;

static void put_class(const page *p, const char *before, ptrdiff_t k, const char *after)
{
    char number[32];
    snprintf(number, sizeof number, "%td", k);
    page_put(p->to, before, p->r->classes ? p->r->classes[k] : number, after);
}

/* ---- the head ---------------------------------------------------------------------------------- */

static void put_figure(const page *p, const char *name, page_string value)
{
    fprintf(p->to, "<div><dt>%s</dt><dd>%s</dd></div>\n", name, value.text);
}

/* Validation's scores at the best epoch, or training's at the last one. */
static void put_figures(const page *p)
{
    const report *r = p->r;
    fputs("<dl class=\"figures\">\n", p->to);
    if (r->count > 0) {
        const st_train_report *last = &r->epochs[r->count - 1],
                              *at = p->best < 0 ? last : &r->epochs[p->best];
        bool validated = isfinite(at->validation.loss);
        const st_metrics *score = validated ? &at->validation : &at->training;
        const char *set = validated ? "validation" : "training";
        char name[64];
        snprintf(name, sizeof name, "%s accuracy", set);
        if (isfinite(score->accuracy)) put_figure(p, name, page_percent(score->accuracy));
        snprintf(name, sizeof name, "%s loss", set);
        put_figure(p, name, page_value(score->loss));
        page_string epochs;
        snprintf(epochs.text, sizeof epochs.text, "%d of %d", at->epoch,
                 p->best < 0 ? last->epochs : last->epoch);
        put_figure(p, p->best < 0 ? "epochs" : "best epoch", epochs);
        put_figure(p, "time", page_time(last->seconds));
    }
    st_tensor parameters = p->r->net ? st_net_parameters(p->r->net) : (st_tensor){ 0 };
    if (!st_is_null(parameters)) put_figure(p, "parameters", page_count((double)st_numel(parameters)));
    fputs("</dl>\n", p->to);
}

static void put_head(const page *p)
{
    const report *r = p->r;
    page_begin(p->to, r->title ? r->title : "Training run");
    put_figures(p);
    fputs("<dl class=\"facts\">\n", p->to);
    for (const report_fact *f = r->facts; f && f->name; f++) {
        page_put(p->to, "<div><dt>", f->name, "</dt>");
        page_put(p->to, "<dd>", f->text, "</dd></div>\n");
    }
    fputs("</dl>\n", p->to);
    if (r->network) page_put(p->to, "<pre tabindex=\"0\" aria-label=\"network\">", r->network, "</pre>\n");
    fputs("</header>\n<main>\n", p->to);
}

/* ---- curves ------------------------------------------------------------------------------------ */

/* The best epoch is marked in the curves of validation and of the learning rate. */
static void put_charts(const page *p)
{
    const st_train_report *e = p->r->epochs;
    const int count = p->r->count, best = p->best;
    const chart_line loss[] = {
        { "training", "training", offsetof(st_train_report, training.loss), e, count, -1 },
        { "validation", "validation", offsetof(st_train_report, validation.loss), e, count, best },
    };
    const chart_line accuracy[] = {
        { "training", "training", offsetof(st_train_report, training.accuracy), e, count, -1 },
        { "validation", "validation", offsetof(st_train_report, validation.accuracy), e, count, best },
    };
    const chart_line lr = { "last", "training", offsetof(st_train_report, lr), e, count, best };
    const chart charts[] = { { "Loss", .may_be_log = true, .lines = 2, .line = loss },
                             { "Accuracy", .percent = true, .lines = 2, .line = accuracy },
                             { "Learning rate", .lines = 1, .line = &lr } };
    fputs("<div class=\"charts\">\n", p->to);
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++) page_chart(p->to, &charts[i]);
    fputs("</div>\n", p->to);
}

static void put_epoch_row(const page *p, int i)
{
    const st_train_report *e = &p->r->epochs[i];
    const page_string cells[] = { page_value(e->training.loss),
                                  page_percent(e->training.accuracy),
                                  page_value(e->validation.loss),
                                  page_percent(e->validation.accuracy),
                                  page_value(e->lr),
                                  page_time(e->seconds) };
    fprintf(p->to, "<tr%s><th scope=\"row\">%d%s</th>", i == p->best ? " class=\"here\"" : "", e->epoch,
            i == p->best ? " (best)" : "");
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) fprintf(p->to, "<td>%s</td>", cells[k].text);
    fputs("</tr>\n", p->to);
}

static void put_epochs(const page *p)
{
    const report *r = p->r;
    if (r->count == 0) return;
    fputs("<section><h2>Epochs</h2>\n", p->to);
    put_charts(p);
    fputs("<details><summary>All epochs as a table</summary>\n", p->to);
    page_table(p->to, "scroll tall", "rows",
               "<epoch|loss|accuracy|validation loss|validation accuracy|learning rate|time");
    for (int i = 0; i < r->count; i++) put_epoch_row(p, i);
    fputs("</tbody></table></div></details></section>\n", p->to);
}

/* ---- the confusion matrix ------------------------------------------------------------------------ */

/* Shaded relative to the most hits of a class, or to the most frequent mistake. */
static void put_cell(const page *p, ptrdiff_t truth, ptrdiff_t predicted, const ptrdiff_t most[2])
{
    ptrdiff_t count = scores_at(&p->found, truth, predicted);
    if (count == 0) fputs("<td></td>", p->to);
    else
        fprintf(p->to, "<td class=\"%s\" style=\"--s:%.3f\">%td</td>", truth == predicted ? "right" : "wrong",
                (double)count / (double)most[truth != predicted], count);
}

static void put_matrix(const page *p)
{
    const scores *f = &p->found;
    ptrdiff_t most[2] = { 1, 1 };
    for (ptrdiff_t i = 0; i < f->classes * f->classes; i++) {
        ptrdiff_t *of = &most[i / f->classes != i % f->classes];
        if (f->confusion[i] > *of) *of = f->confusion[i];
    }
    fputs("<div class=\"scroll\" tabindex=\"0\"><table class=\"matrix\">\n"
          "<caption>rows: class; columns: predicted class</caption>\n"
          "<thead><tr><td class=\"sum\"></td>",
          p->to);
    for (ptrdiff_t k = 0; k < f->classes; k++) put_class(p, "<th scope=\"col\">", k, "</th>");
    fputs("<th scope=\"col\">recall</th></tr></thead><tbody>\n", p->to);
    for (ptrdiff_t truth = 0; truth < f->classes; truth++) {
        put_class(p, "<tr><th scope=\"row\">", truth, "</th>");
        for (ptrdiff_t k = 0; k < f->classes; k++) put_cell(p, truth, k, most);
        fprintf(p->to, "<td class=\"sum\">%s</td></tr>\n", page_percent(scores_of(f, truth).recall).text);
    }
    fputs("</tbody><tfoot><tr><th scope=\"row\">precision</th>", p->to);
    for (ptrdiff_t k = 0; k < f->classes; k++)
        fprintf(p->to, "<td class=\"sum\">%s</td>", page_percent(scores_of(f, k).precision).text);
    fprintf(p->to, "<td class=\"sum\"><b>%s</b></td></tr></tfoot></table></div>\n",
            page_percent(f->accuracy).text);
}

static void put_confused(const page *p)
{
    confused found[MOST_CONFUSED];
    int count = scores_confused(&p->found, found, MOST_CONFUSED);
    if (count == 0) return;
    page_table(p->to, "scroll", "rows", "<class|<predicted|times|of");
    for (int i = 0; i < count; i++) {
        put_class(p, "<tr><th scope=\"row\">", found[i].truth, "</th>");
        put_class(p, "<td class=\"text\">", found[i].predicted, "</td>");
        fprintf(p->to, "<td>%td</td><td>%td</td></tr>\n", found[i].count,
                scores_of(&p->found, found[i].truth).samples);
    }
    fputs("</tbody></table></div>\n", p->to);
}

static void put_classes(const page *p)
{
    const scores *f = &p->found;
    fputs("<details><summary>All classes as a table</summary>", p->to);
    page_table(p->to, "scroll tall", "rows", "<class|samples|precision|recall");
    for (ptrdiff_t k = 0; k < f->classes; k++) {
        const class_scores c = scores_of(f, k);
        put_class(p, "<tr><th scope=\"row\">", k, "</th>");
        fprintf(p->to, "<td>%s</td><td>%s</td><td>%s</td></tr>\n", page_count((double)c.samples).text,
                page_percent(c.precision).text, page_percent(c.recall).text);
    }
    fputs("</tbody></table></div></details>\n", p->to);
}

static void put_confusion(const page *p)
{
    const scores *f = &p->found;
    if (f->classes == 0) return;
    fputs("<section><h2>Confusion</h2>\n", p->to);
    fprintf(p->to, "<p>%s validation samples, %s classified correctly: accuracy %s, loss %s.</p>\n",
            page_count((double)f->count).text, page_count(f->accuracy * (double)f->count).text,
            page_percent(f->accuracy).text, page_value(f->loss).text);
    fputs("<div class=\"beside\">\n", p->to);
    if (f->classes <= MOST_IN_TABLE) put_matrix(p);
    put_confused(p);
    fputs("</div>\n", p->to);
    if (f->classes > MOST_IN_TABLE) put_classes(p);
    fputs("</section>\n", p->to);
}

/* ---- images ------------------------------------------------------------------------------------ */

/* Includes the elements of a contiguous tensor in a range. */
static void widen(double range[2], st_tensor x)
{
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        range[0] = fmin(range[0], (double)st_data(x)[k]);
        range[1] = fmax(range[1], (double)st_data(x)[k]);
    }
}

static void put_image(const page *p, const char *what, ptrdiff_t number, st_tensor image,
                      const double range[2])
{
    char alt[64];
    snprintf(alt, sizeof alt, "%s %td", what, number);
    page_image(p->to, alt, image, range[0], range[1]);
}

static void put_mistake(const page *p, const mistake *m, const double range[2])
{
    const char *path = p->r->path_of ? p->r->path_of(p->r->context, m->sample) : NULL;
    fputs("<li>", p->to);
    put_image(p, "sample", m->sample, m->x, range);
    put_class(p, "<b>", m->truth, "</b>");
    put_class(p, " → <b class=\"validation\">", m->predicted, "</b>");
    fprintf(p->to, "<small><span class=\"number\">%s</span>", page_percent(m->confidence).text);
    if (path) page_put(p->to, "<br/>", path, "");
    else fprintf(p->to, ", no. %td", m->sample);
    fputs("</small></li>\n", p->to);
}

static void put_mistakes(const page *p)
{
    const scores *f = &p->found;
    if (f->classes == 0 || f->mistakes == 0) return;
    double range[2] = { 0, 1 }; /* of all images */
    for (int i = 0; i < f->mistakes; i++) widen(range, f->mistake[i].x);
    fputs("<section><h2>Mistakes</h2>\n<p>The most confident ones first: class → predicted class, its "
          "probability, "
          "and the sample's file or number.</p>\n"
          "<ol class=\"images\">\n",
          p->to);
    for (int i = 0; i < f->mistakes; i++) put_mistake(p, &f->mistake[i], range);
    fputs("</ol></section>\n", p->to);
}

static void put_filters(const page *p)
{
    st_layer *first = p->r->net ? p->r->net->root : NULL;
    while (first && first->children > 0 && strcmp(first->type->name, "sequence") == 0)
        first = first->child[0];
    if (!first || strcmp(first->type->name, "conv2d") != 0 || first->params == 0) return;
    st_tensor weight = first->param[0];
    ptrdiff_t filters = weight.shape.n[0], channels = weight.shape.n[1];
    fprintf(
        p->to,
        "<section><h2>First convolution</h2>\n<p>The weights of its %s%td filter%s of "
        "%td&#8239;×&#8239;%td, each scaled by its maximum: %s0 is grey, positive weights are bright.</p>\n"
        "<ol class=\"images filters\">\n",
        filters > MOST_FILTERS ? "first 64 of " : "", filters, filters == 1 ? "" : "s", weight.shape.n[2],
        weight.shape.n[3], channels == 1 || channels == 3 ? "" : "the mean over their channels, ");
    for (ptrdiff_t i = 0; i < filters && i < MOST_FILTERS; i++) {
        st_tensor filter = st_select(weight, 0, i);
        double range[2] = { -1e-30, 1e-30 };
        widen(range, filter);
        range[1] = fmax(-range[0], range[1]);
        range[0] = -range[1];
        fputs("<li>", p->to);
        put_image(p, "filter", i, filter, range);
        fputs("</li>\n", p->to);
    }
    fputs("</ol></section>\n", p->to);
}

/* ---- layers ------------------------------------------------------------------------------------ */

typedef struct rows {
    const page *p;
    int next;                           /* the next layer's number */
    double forward, backward;           /* seconds of all layers */
    double most_forward, most_backward; /* of the slowest one */
    double most_parameters;
} rows;

static double own_parameters(const st_layer *l)
{
    double own = 0;
    for (int i = 0; i < l->params; i++) own += (double)st_numel(l->param[i]);
    return own;
}

static int depth_of(const char *path)
{
    int depth = 0;
    for (const char *c = path; *c; c++) depth += *c == '.';
    return depth;
}

/* The bar is relative to the slowest layer, the number to all layers. */
static void put_share(const page *p, double seconds, double most, double all)
{
    fprintf(p->to, "<td class=\"bar\"><i style=\"--s:%.3f\"></i><span>%s</span></td>",
            most > 0 ? seconds / most : 0, page_percent(all > 0 ? seconds / all : 0).text);
}

static void put_layer(st_layer *l, const char *path, void *context)
{
    rows *r = context;
    const page *p = r->p;
    const layer_times *times = p->r->times;
    const layer_time *time = times ? &times->layer[r->next] : NULL;
    r->next++;
    if (!path[0]) return;
    int depth = depth_of(path);
    char text[512];
    st_layer_describe(l, text, sizeof text);
    char *options = strchr(text, '(');
    if (options) *options = '\0';
    fprintf(p->to, "<tr><th scope=\"row\" style=\"padding-left:%.1fem\">", 1.5 * depth);
    page_put(p->to, "", strrchr(path, '.') ? strrchr(path, '.') + 1 : path, " ");
    page_text(p->to, text);
    if (options) {
        options[strlen(options + 1)] = '\0';
        page_put(p->to, " <span class=\"option\">", options + 1, "</span>");
    }
    fprintf(p->to, "</th><td class=\"text\">%s</td>", st_shape_text(st_shape_without_batch(l->y)).text);
    if (own_parameters(l) > 0)
        fprintf(p->to, "<td class=\"bar large\"><i style=\"--s:%.3f\"></i><span>%s</span></td>",
                own_parameters(l) / r->most_parameters, page_count(own_parameters(l)).text);
    else fputs("<td></td>", p->to);
    fprintf(p->to, "<td>%s</td>",
            l->children || l->flops == 0 ? "" : page_count(l->flops / (double)l->x.n[0]).text);
    if (time && l->children == 0) {
        put_share(p, time->forward, r->most_forward, r->forward);
        put_share(p, time->backward, r->most_backward, r->backward);
    } else if (time) fputs("<td></td><td></td>", p->to);
    fputs("</tr>\n", p->to);
}

static void find_most(st_layer *l, const char *path, void *context)
{
    rows *r = context;
    (void)path;
    r->most_parameters = fmax(r->most_parameters, own_parameters(l));
}

static void put_layers(const page *p)
{
    const report *r = p->r;
    if (!r->net) return;
    rows of = { .p = p };
    st_layer_visit(r->net->root, find_most, &of);
    for (int i = 0; r->times && i < r->times->count; i++) {
        of.forward += r->times->layer[i].forward;
        of.backward += r->times->layer[i].backward;
        of.most_forward = fmax(of.most_forward, r->times->layer[i].forward);
        of.most_backward = fmax(of.most_backward, r->times->layer[i].backward);
    }
    fputs("<section><h2>Layers</h2>\n", p->to);
    if (r->times)
        fprintf(p->to,
                "<p>A training step on %td samples takes %.2f ms forward and %.2f ms backward; "
                "the bars show each layer's share.</p>\n",
                r->times->batch, 1e3 * r->times->forward, 1e3 * r->times->backward);
    page_table(p->to, "scroll", "rows wide",
               r->times ? "<layer|<output|parameters|FLOPs per sample|forward|backward"
                        : "<layer|<output|parameters|FLOPs per sample");
    st_layer_visit(r->net->root, put_layer, &of);
    fprintf(p->to, "</tbody><tfoot><tr><th scope=\"row\">all</th><td></td><td>%s</td>",
            page_count((double)st_numel(st_net_parameters(r->net))).text);
    fprintf(p->to, "<td>%s</td>%s</tr></tfoot></table></div></section>\n",
            page_count(r->net->root->flops / (double)r->net->root->x.n[0]).text,
            r->times ? "<td></td><td></td>" : "");
}

/* ---- the page ---------------------------------------------------------------------------------- */

static int put_page(FILE *to, const void *context)
{
    page p = *(const page *)context;
    p.to = to;
    put_head(&p);
    put_epochs(&p);
    put_confusion(&p);
    put_mistakes(&p);
    put_filters(&p);
    put_layers(&p);
    fputs("</main>\n</body></html>\n", to);
    return st_error() ? -1 : 0;
}

int report_write(const char *path, const report *r)
{
    if (st_error()) return -1;
    page p = { .r = r, .best = -1 };
    for (int i = 0; i < r->count; i++)
        if (r->epochs[i].best) p.best = i;
    if (r->net && r->validation && scores_measure(&p.found, r->net, r->validation, r->loss, NULL)) return -1;
    int status = st_file_replace(path, put_page, &p);
    scores_free(&p.found);
    return status;
}
