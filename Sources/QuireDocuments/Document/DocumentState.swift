public import Foundation
public import Quire

/// The state of a document: any of these, or none when it is open without problems.
public struct DocumentState: OptionSet, Sendable, Hashable {
    /// The bits.
    public let rawValue: Int

    /// Makes a state of bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// It is open, nothing is wrong, and it may be edited.
    public static let normal: DocumentState = []
    /// It is not open.
    public static let closed = DocumentState(rawValue: 1 << 0)
    /// Another program has changed the package while it was open here, so that there are two contents for one document. See
    /// ``ManagedDocument/resolveConflict(keeping:)``.
    public static let inConflict = DocumentState(rawValue: 1 << 1)
    /// The last save failed. Nothing is lost: the changes are still in the document, which is to be saved again.
    public static let savingError = DocumentState(rawValue: 1 << 2)
    /// It may not be edited now, because it is being reverted or closed.
    public static let editingDisabled = DocumentState(rawValue: 1 << 3)
    /// It is being opened, saved, or saved elsewhere.
    public static let progressAvailable = DocumentState(rawValue: 1 << 4)
}

/// A change of a document's state, with its reason.
public struct DocumentStateChange: Sendable {
    /// The state before.
    public var previous: DocumentState
    /// The state now.
    public var current: DocumentState
    /// The error that led to it, if one did.
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

    /// The notification's user info: the change, and its error under the usual key.
    var userInfo: [String: any Sendable] {
        var userInfo: [String: any Sendable] = [Self.key: self]
        if let error { userInfo[NSUnderlyingErrorKey] = error }
        return userInfo
    }
}

extension ManagedDocument {
    /// Posted on the main queue after each change of ``documentState``, with the document as its object. Read it with
    /// ``DocumentStateChange/init(_:)``; its `userInfo` has the error, if there is one, under `NSUnderlyingErrorKey`.
    public nonisolated static let stateChangedNotification = Notification.Name(
        "QuireDocumentStateChangedNotification")

    /// The changes of ``documentState`` from now on, in order, each with its error.
    ///
    /// Every call gives a sequence of its own. It ends with the document, which it does not keep.
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
        NotificationCenter.default.post(
            name: Self.stateChangedNotification, object: self, userInfo: change.userInfo)
    }
}
