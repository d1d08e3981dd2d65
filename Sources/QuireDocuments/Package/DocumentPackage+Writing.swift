import Logging
import Quire

extension DocumentPackage {
    /// Writes a new generation of additional content, durably. If that could not be made durable the store is opened again
    /// and checked before the next save.
    ///
    /// - Returns: Its number, or `nil` if no file is left.
    func writeContent(_ changes: AdditionalContentChanges, after live: Int?) throws -> Int? {
        do {
            return try content.write(changes, after: live)
        } catch {
            store.distrust(after: error)
            throw error
        }
    }
}

extension DocumentPackage {
    /// Ends all use of the package after everything has been saved. What cannot be tidied up any more, the next owner does:
    /// the log holds what has been saved.
    package func closeSaved() {
        do {
            try close()
        } catch {
            Logger(label: "quire.document").warning(
                "“\(layout.path)” was closed, but its files could not be tidied up: \(error)")
        }
    }
}
