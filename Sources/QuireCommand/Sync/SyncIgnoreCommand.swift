import ArgumentParser
import Quire
import QuireDocuments
import QuireSync

/// `quire sync ignore FOLDER`
struct SyncIgnoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ignore",
        abstract: "Tells Syncthing which files of documents and stores it must not carry.",
        discussion: """
            For a folder that Syncthing carries and that has documents or stores themselves in it. While one is open there are \
            files beside and in it that must stay on their machine: a write-ahead log without its store, or a store with another \
            machine's log, is a damaged store. They are added to the folder's .stignore, before all else that is in it, and \
            between two lines that mark them. Run it on every machine: Syncthing does not carry that file.

            Such documents are carried whole only while they are closed. One that is edited on two machines belongs outside of \
            the folder, and is kept the same by sync init and sync join.

            EXAMPLES:
              quire sync ignore ~/Sync
              quire sync ignore ~/Sync --document-extension recipes --store-extension storedata
            """)

    @Argument(help: ArgumentHelp("The folder that Syncthing carries.", valueName: "FOLDER"))
    var folder: String

    @Option(
        help: ArgumentHelp(
            "Another extension than quire that names of documents have.", valueName: "EXTENSION"))
    var documentExtension: [String] = []

    @Option(
        help: ArgumentHelp(
            "Another extension than sqlite, sqlite3, db and store that names of stores have.",
            valueName: "EXTENSION"))
    var storeExtension: [String] = []

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let output = Output(json: json, reportsChanges: true)
        let place = FolderTransport.place(of: folder)
        try DocumentPackage.checkOutside(
            FileSystem.path(place, SyncIgnorePatterns.syncthingFileName))
        let patterns = try SyncIgnorePatterns(
            documentExtensions: SyncIgnorePatterns.documentExtensions + documentExtension,
            storeExtensions: SyncIgnorePatterns.storeExtensions + storeExtension)
        let added = try patterns.writeSyncthingIgnoreFile(in: place)
        let file = FileSystem.path(folder, SyncIgnorePatterns.syncthingFileName)
        if json {
            try output.print(
                .object(["file": .string(file), "added": .array(added.map { .string($0) })]),
                levels: 2)
        } else if added.isEmpty {
            try output.print("\(file) has all patterns already.")
        } else {
            try output.print("Added \(Count.of(added.count, "pattern")) to \(file).")
        }
        try output.flush()
    }
}
