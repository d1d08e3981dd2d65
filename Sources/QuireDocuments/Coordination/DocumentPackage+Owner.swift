import Quire

/// What became of asking another process to save a package.
public enum OwnerReply: Sendable, Hashable {
    /// Nobody has it open for writing, or this process itself: what is on disk is what there is.
    case nobody
    /// It has been saved.
    case saved
    /// Somebody has it open who cannot be asked: on another machine, of another user, or a program that does not listen.
    /// What is on disk is what was saved last.
    case unreachable
}

extension DocumentPackage {
    /// Asks the process that has a package open for writing to save it, and waits until it has.
    ///
    /// ``FileCoordinator`` does this before a document is read. Not to be called on the main queue.
    ///
    /// - Parameter timeout: The longest time to wait for the answer.
    /// - Throws: ``QuireError`` with code `timedOut` if the process does not answer, with the code of the error that saving
    ///   failed with there, or `inputOutput`.
    @discardableResult
    public static func askOwnerToSave(
        at path: String, timeout: Duration = .seconds(10)
    ) throws -> OwnerReply {
        let layout = DocumentPackageLayout(path: path)
        guard layout.isPackage, let owner = try DocumentLock.owner(of: layout),
            !owner.isThisProcess
        else { return .nobody }
        switch try PackageListener.ask("save", aboutPackageAt: layout.path, within: timeout) {
        case .line("saved"): return .saved
        case .line(let line) where line.hasPrefix("failed "):
            let parts = line.split(separator: " ", maxSplits: 2).map(String.init)
            throw QuireError(
                .init(rawValue: parts.count > 1 ? parts[1] : "inputOutput"),
                "“\(layout.path)” could not be saved\(owner.phrase), which has it open: "
                    + (parts.count > 2 ? parts[2] : "it does not say why."),
                subject: .init(file: layout.path))
        case .timeout:
            throw QuireError(
                .timedOut,
                "“\(layout.path)” is open for writing\(owner.phrase), which was asked to save it and did not "
                    + "answer within \(timeout).",
                subject: .init(file: layout.path))
        case .line, .nothing, nil: return .unreachable
        }
    }

    /// Whether the process that has a package open for writing has unsaved changes of it; `nil` if it cannot be asked.
    public static func ownerHasUnsavedChanges(
        at path: String, timeout: Duration = .seconds(2)
    ) -> Bool? {
        switch try? PackageListener.ask("status", aboutPackageAt: path, within: timeout) {
        case .line("unsaved"): true
        case .line("clean"): false
        default: nil
        }
    }
}
