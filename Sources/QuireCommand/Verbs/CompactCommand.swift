import ArgumentParser
import Quire
import QuireSQLite

/// `quire compact PATH`
struct CompactCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compact",
        abstract: "Rebuilds the database of a document or a store at minimal size.",
        discussion: """
            Returns the space of deleted objects and values to the file system. The content does not \
            change. This temporarily needs up to twice the space of the compact database; if the disk is \
            full, the document does not change. XML and binary stores are always compact. To remove old \
            transactions and versions first, use quire history purge and quire versions prune. The next \
            version takes the space of the whole database, because its pages have moved. quire stats \
            shows what takes up space.

            EXAMPLES:
              quire compact Library.quire
              quire compact Recipes.sqlite --json
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @OptionGroup var options: DocumentOptions
    @OptionGroup var wait: WaitOption

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let document = try await DocumentSession.open(
            path, modelPath: options.model, access: .write, waiting: wait)
        let storePath = document.store.path ?? path
        let before = try size(ofStoreAt: storePath)
        let isDatabase = try await document.closing {
            if let note = document.modelNote { Output.report(note) }
            guard let store = document.store as? SQLiteStore else { return false }
            try ProgressBar.showing("Compacting \(path)", of: .fraction) { _ in
                try store.compact()
            }
            return true
        }
        let after = try size(ofStoreAt: storePath)
        let line =
            !isDatabase
            ? "“\(path)” is always compact; only SQLite stores can be rebuilt."
            : after < before
                ? "Compacted \(path) from \(before) to \(after) bytes."
                : "“\(path)” was already compact: \(after) bytes."
        try options.printResult(levels: 0, [line]) {
            .object([
                "path": .string(path), "before": .integer(before), "after": .integer(after),
            ])
        }
    }

    /// The size of a store's file and its log.
    private func size(ofStoreAt path: String) throws -> Int64 {
        try ["", "-wal"].reduce(0) { size, suffix in
            try size + (FileSystem.information(at: path + suffix)?.size ?? 0)
        }
    }
}
