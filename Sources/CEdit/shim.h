#pragma once
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Swift cannot call functions with variable arguments, such as el_set and history.

typedef char *(*quire_edit_prompt)(EditLine *);
typedef unsigned char (*quire_edit_function)(EditLine *, int);

static inline EditLine *quire_edit_init(const char *program) {
    return el_init(program, stdin, stdout, stderr);
}

/// Sets the object that callbacks get back by `quire_edit_owner`, the prompt, the reader of characters and the history.
static inline void quire_edit_set_up(
    EditLine *editor, void *owner, quire_edit_prompt prompt, el_rfunc_t read, History *history_) {
    el_set(editor, EL_CLIENTDATA, owner);
    el_set(editor, EL_PROMPT, prompt);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_GETCFN, read);
    el_set(editor, EL_HIST, history, history_);
}

static inline void *quire_edit_owner(EditLine *editor) {
    void *owner = NULL;
    el_get(editor, EL_CLIENTDATA, &owner);
    return owner;
}

/// Binds a key to a function of a name.
static inline void quire_edit_bind(
    EditLine *editor, const char *key, const char *name, quire_edit_function function) {
    el_set(editor, EL_ADDFN, name, "", function);
    el_set(editor, EL_BIND, key, name, NULL);
}

/// Puts the terminal into the mode for editing, or back.
static inline void quire_edit_prepare_terminal(EditLine *editor, int edits) {
    el_set(editor, EL_PREP_TERM, edits);
}

static inline void quire_edit_refresh(EditLine *editor) { el_set(editor, EL_REFRESH); }

/// A history of a number of different lines.
static inline History *quire_history_init(int size) {
    History *lines = history_init();
    HistEvent event;
    if (lines == NULL) return NULL;
    history(lines, &event, H_SETSIZE, size);
    history(lines, &event, H_SETUNIQUE, 1);
    return lines;
}

static inline void quire_history_add(History *lines, const char *line) {
    HistEvent event;
    history(lines, &event, H_ENTER, line);
}
