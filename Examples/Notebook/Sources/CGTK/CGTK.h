#pragma once

#include <glib-unix.h>
#include <gtk/gtk.h>

// Of libdispatch, for run loops other than its own. Exported, but in no public header; CoreFoundation declares them as well.
int _dispatch_get_main_queue_handle_4CF(void);
void _dispatch_main_queue_callback_4CF(void *message);
