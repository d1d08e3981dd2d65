/// Who shows or edits a file or folder, and is told before others in this process read or write it.
///
/// ```swift
/// FileCoordinator.addFilePresenter(editor)        // From now on it is asked.
/// defer { FileCoordinator.removeFilePresenter(editor) }
/// ```
///
/// Each method is called on no particular queue, one at a time for a presenter and an access; an actor or a `@MainActor`
/// class hops to its own. It has to return: whoever waits for it gives up after a while, with an error that names
/// ``presenterName``. What a presenter reads or writes meanwhile by a coordinator of its own, made with itself, is let
/// through.
public protocol FilePresenter: AnyObject, Sendable {
    /// The item that it shows; a folder stands for everything in it. Asked from any thread, often; it must not wait.
    var presentedItemPath: String? { get }
    /// What sentences call it.
    var presenterName: String { get }

    /// Somebody is about to read or write the item: save what is unsaved. An error makes their access fail.
    func savePresentedItemChanges() async throws
    /// Somebody is about to read the item: do not write to it.
    ///
    /// - Returns: What to call when they are through, so that it may be written to again.
    func relinquishPresentedItemToReader() async -> FileReacquirer?
    /// Somebody is about to write to the item: neither read nor write it.
    ///
    /// - Returns: What to call when they are through. Then look at what the item is now.
    func relinquishPresentedItemToWriter() async -> FileReacquirer?
    /// Somebody is about to delete the item: close it without saving. An error makes the deletion fail.
    func accommodatePresentedItemDeletion() async throws
    /// The item, or a folder that it is in, was moved.
    func presentedItemDidMove(to path: String) async
    /// Somebody has written to the item.
    func presentedItemDidChange() async
}

/// Called when an access for which a presenter has made way is over.
public typealias FileReacquirer = @Sendable () async -> Void

/// What a presenter need not do.
extension FilePresenter {
    /// The name of the type.
    public var presenterName: String { "\(type(of: self))" }
    /// There is nothing to save.
    public func savePresentedItemChanges() async throws {}
    /// It does not write anyway.
    public func relinquishPresentedItemToReader() async -> FileReacquirer? { nil }
    /// It does not use the item meanwhile anyway.
    public func relinquishPresentedItemToWriter() async -> FileReacquirer? { nil }
    /// It does not mind.
    public func accommodatePresentedItemDeletion() async throws {}
    /// It asks for the path when it needs it.
    public func presentedItemDidMove(to path: String) async {}
    /// It does not mind.
    public func presentedItemDidChange() async {}
}
