import ArgumentParser
import Quire
import QuireDocuments
import QuireSync

/// `quire sync ignore FOLDER`
struct SyncIgnoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ignore",
        abstract: "Tells Syncthing which files of documents and stores to ignore.",
        discussion: """
            For a Syncthing folder that contains documents or stores themselves. An open document \
            has files that must stay on its machine: another machine's write-ahead log would damage \
            the store. Adds patterns for them at the beginning of the folder's .stignore, between \
            two marker lines. Run it on every machine: Syncthing does not transfer that file.

            Such documents are transferred completely only while they are closed. Keep a document \
            that is edited on two machines outside the folder, and use sync init and sync join.

            EXAMPLES:
              quire sync ignore ~/Sync
              quire sync ignore ~/Sync --document-extension recipes --store-extension storedata
            """)

    @Argument(help: ArgumentHelp("The folder that Syncthing synchronizes.", valueName: "FOLDER"))
    var folder: String

    @Option(
        help: ArgumentHelp(
            "Additional file extension of documents, besides quire.", valueName: "EXTENSION"))
    var documentExtension: [String] = []

    @Option(
        help: ArgumentHelp(
            "Additional file extension of stores, besides sqlite, sqlite3, db and store.",
            valueName: "EXTENSION"))
    var storeExtension: [String] = []

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let place = FolderTransport.place(of: folder)
        try DocumentPackage.checkOutside(
            FileSystem.path(place, SyncIgnorePatterns.syncthingFileName))
        let patterns = try SyncIgnorePatterns(
            documentExtensions: SyncIgnorePatterns.documentExtensions + documentExtension,
            storeExtensions: SyncIgnorePatterns.storeExtensions + storeExtension)
        let added = try patterns.writeSyncthingIgnoreFile(in: place)
        let file = FileSystem.path(folder, SyncIgnorePatterns.syncthingFileName)
        let sentence =
            added.isEmpty
            ? "\(file) already contains all patterns."
            : "Added \(Count.of(added.count, "pattern")) to \(file)."
        try Output.printResult(json: json, reportsChanges: true, levels: 2, [sentence]) {
            .object(["file": .string(file), "added": .array(added.map { .string($0) })])
        }
    }
}
