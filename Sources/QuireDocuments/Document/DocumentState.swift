public import Foundation
public import Quire

/// The state of a ``ManagedDocument`` or a ``PersistentDocument``: any of these, or none when it is open without problems.
public struct DocumentState: OptionSet, Sendable, Hashable {
    /// The raw bits.
    public let rawValue: Int

    /// Creates a state from raw bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// It is open without problems, and can be edited.
    public static let normal: DocumentState = []
    /// It is not open.
    public static let closed = DocumentState(rawValue: 1 << 0)
    /// Another program has changed the package or the file while it was open, so that two contents exist. See
    /// ``ManagedDocument/resolveConflict(keeping:)``; save a ``PersistentDocument`` as another file, or revert it.
    public static let inConflict = DocumentState(rawValue: 1 << 1)
    /// The last save failed. Nothing is lost: the document still has the changes, and can be saved again.
    public static let savingError = DocumentState(rawValue: 1 << 2)
    /// It cannot be edited now, because it is being reverted or closed.
    public static let editingDisabled = DocumentState(rawValue: 1 << 3)
    /// It is being opened, saved, or saved elsewhere; see ``ManagedDocument/progress`` and ``PersistentDocument/progress``.
    public static let progressAvailable = DocumentState(rawValue: 1 << 4)
}

/// A change of a document's state, with its reason.
public struct DocumentStateChange: Sendable {
    /// The state before.
    public var previous: DocumentState
    /// The state now.
    public var current: DocumentState
    /// The error that caused it, if any.
    public var error: QuireError?

    /// The change of a notification; `nil` if it is not a
    /// ``ManagedDocument/stateChangedNotification``.
    public init?(_ notification: Notification) {
        guard let change = notification.userInfo?[Self.key] as? DocumentStateChange else {
            return nil
        }
        self = change
    }

    init(previous: DocumentState, current: DocumentState, error: QuireError?) {
        self.previous = previous
        self.current = current
        self.error = error
    }

    private static let key = "change"

    /// Posts the notification, whose user info has the change, and its error under the usual key.
    fileprivate func post(by document: AnyObject) {
        var userInfo: [String: any Sendable] = [Self.key: self]
        if let error { userInfo[NSUnderlyingErrorKey] = error }
        NotificationCenter.default.post(
            name: ManagedDocument.stateChangedNotification, object: document, userInfo: userInfo)
    }
}

extension ManagedDocument {
    /// Posted on the main queue after each change of ``documentState``, with the document as its object. Read it with
    /// ``DocumentStateChange/init(_:)``; its `userInfo` contains the error, if any, under `NSUnderlyingErrorKey`.
    public nonisolated static let stateChangedNotification = Notification.Name(
        "QuireDocumentStateChangedNotification")

    /// The changes of ``documentState`` from now on, in order, each with its error.
    ///
    /// Every call returns a new sequence. It ends when the document is deallocated, and does not retain it.
    ///
    /// ```swift
    /// for await change in document.stateChanges where change.current.contains(.savingError) {
    ///     print(change.error?.message ?? "")
    /// }
    /// ```
    public var stateChanges: AsyncStream<DocumentStateChange> { stateBroadcast.stream() }

    func notify(_ change: DocumentStateChange) {
        stateChangeHandler?(change)
        stateBroadcast.send(change)
        change.post(by: self)
    }
}

extension PersistentDocument {
    /// Posted on the main queue after each change of ``documentState``; as ``ManagedDocument/stateChangedNotification``, whose name
    /// it has.
    public nonisolated static let stateChangedNotification =
        ManagedDocument.stateChangedNotification

    /// The changes of ``documentState`` from now on, in order; as ``ManagedDocument/stateChanges``.
    public var stateChanges: AsyncStream<DocumentStateChange> { stateBroadcast.stream() }

    /// Reports the state if it has changed.
    func stateDidChange() {
        let (previous, current) = (reportedState, documentState)
        if previous == current { return }
        reportedState = current
        let change = DocumentStateChange(
            previous: previous, current: current,
            error: current.contains(.savingError) ? lastSaveError : requestError)
        stateChangeHandler?(change)
        stateBroadcast.send(change)
        change.post(by: self)
    }
}
