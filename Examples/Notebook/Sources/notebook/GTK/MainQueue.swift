import CGTK
import Foundation

/// Runs the main queue, and with it the main actor, within GLib's main loop.
///
/// GTK wants the main thread, and waits there in GLib's main loop for events. Tasks of the main actor are blocks of the main
/// queue, which is served by `dispatchMain()` or a `RunLoop`: with neither of them running, nothing after an `await` would
/// ever run, and no document would be opened or saved. Like CoreFoundation, this asks libdispatch for the descriptor that is
/// readable while the main queue has blocks, has the loop watch it, and lets libdispatch run the blocks: between two events of
/// the user, on the same thread. So signal handlers and tasks of the main actor never run at the same time.
enum MainQueue {
    static func runInMainLoop() {
        _ = g_unix_fd_add(
            _dispatch_get_main_queue_handle_4CF(), G_IO_IN,
            { descriptor, _, _ in
                // Reset before running the blocks, so that a block enqueued meanwhile makes it readable again.
                var count: UInt64 = 0
                _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
                _dispatch_main_queue_callback_4CF(nil)
                return 1  // G_SOURCE_CONTINUE
            }, nil)
    }
}
