public import Foundation

/// What an undo manager posts, with itself as the object, on the queue it is used on. The names are Foundation's.
extension UndoManager {
    /// A group is about to be opened or closed within another, or something to be undone or redone: what has not
    /// been registered yet should be now.
    public static let checkpointNotification =
        Notification.Name("NSUndoManagerCheckpointNotification")
    /// A group was opened.
    public static let didOpenUndoGroupNotification =
        Notification.Name("NSUndoManagerDidOpenUndoGroupNotification")
    /// A group is about to be closed. ``groupIsDiscardableKey`` says whether it is discardable.
    public static let willCloseUndoGroupNotification =
        Notification.Name("NSUndoManagerWillCloseUndoGroupNotification")
    /// A group was closed.
    public static let didCloseUndoGroupNotification =
        Notification.Name("NSUndoManagerDidCloseUndoGroupNotification")
    /// A group is about to be undone.
    public static let willUndoChangeNotification =
        Notification.Name("NSUndoManagerWillUndoChangeNotification")
    /// A group was undone.
    public static let didUndoChangeNotification =
        Notification.Name("NSUndoManagerDidUndoChangeNotification")
    /// A group is about to be redone.
    public static let willRedoChangeNotification =
        Notification.Name("NSUndoManagerWillRedoChangeNotification")
    /// A group was redone.
    public static let didRedoChangeNotification =
        Notification.Name("NSUndoManagerDidRedoChangeNotification")
    /// The key under which ``willCloseUndoGroupNotification`` has a truth value.
    public static let groupIsDiscardableKey = "NSUndoManagerGroupIsDiscardableKey"
}
