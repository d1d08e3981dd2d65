import ArgumentParser
import Foundation
import Quire
import QuireDocuments
import QuireSQLite

/// `quire convert STORE NEW --to TYPE`
struct ConvertCommand: AsyncParsableCommand {
    /// A type of store that has a file.
    enum FileType: String, ExpressibleByArgument, CaseIterable {
        case sqlite, xml, binary

        /// The type.
        var storeType: StoreType {
            switch self {
            case .sqlite: .sqlite
            case .xml: .xml
            case .binary: .binary
            }
        }
    }

    static let configuration = CommandConfiguration(
        commandName: "convert",
        abstract: "Writes a store's objects into a new store of any type.",
        discussion: """
            Converts a SQLite, XML or binary store of Core Data or Quire, or the store of a \
            document. The new store contains its model. If anything cannot be converted, no new \
            store is created.

            EXAMPLES:
              quire convert Library.sqlite library.xml --to xml
              quire convert Requests.paw requests.sqlite --to sqlite
              quire convert Old.sqlite new.sqlite --to sqlite --model Old.xcdatamodeld
            """)

    @Argument(help: ArgumentHelp("The store or document.", valueName: "STORE"))
    var path: String

    @Argument(help: ArgumentHelp("The store to create.", valueName: "NEW"))
    var newPath: String

    @Option(
        help: ArgumentHelp("The type of the new store: sqlite, xml or binary.", valueName: "TYPE"))
    var to: FileType

    @Option(
        help: ArgumentHelp("The model, if the store does not contain one.", valueName: "MODEL"))
    var model: String?

    @Flag(help: "Create the new store even if its type cannot store all of the data.")
    var allowRemoval = false

    @OptionGroup var opening: OpeningOptions

    /// The store of a document, or at a path.
    static func store(at path: String) throws -> StoreFile {
        switch try DocumentPath.kind(of: path) {
        case .package: try StoreFile(at: DocumentPackageLayout(path: path).store)
        case .store: try StoreFile(at: path)
        case .archive: throw DocumentPath.archiveError(path)
        }
    }

    /// Runs a conversion, with a progress bar and with reports of what a copy does not have.
    ///
    /// - Parameter body: Converts the store. It passes its progress on.
    static func converting<Result>(
        _ store: StoreFile, at path: String, _ body: (@escaping (Progress) -> Void) throws -> Result
    ) throws -> Result {
        let bar = ProgressBar.begin("Converting \(path)", of: .objects)
        let result: Result
        do {
            defer { bar?.finish() }
            result = try body { bar?.observe($0) }
        }
        if store.type == .sqlite {
            for omission in try SQLiteStore.ancillaryData(at: store.path).omissions {
                Output.report(omission)
            }
        }
        return result
    }

    @MainActor
    func run() async throws {
        try opening.unlock.unlock(path)
        let model = try model.map(ModelSource.model)
        let source = try Self.store(at: path)
        try DocumentPackage.checkOutside(newPath)
        do {
            try Self.converting(source, at: path) {
                try source.convert(
                    to: newPath, type: to.storeType, model: model, allowsRemoval: allowRemoval,
                    progress: $0)
            }
        } catch var error as QuireError where error.code == .removalDenied {
            error.message += " Add --allow-removal to remove it."
            throw error
        }
        try opening.unlock.unlock(newPath)
        let new = try StoreFile(at: newPath).open()
        defer { try? new.close() }
        let count = try new.objectCount()
        try opening.printResult(
            levels: 0,
            [
                "Converted \(path) (\(source.type.rawValue)) to \(newPath) (\(new.type.rawValue)): "
                    + "\(Count.of(count, "object"))."
            ]
        ) {
            .object([
                "path": .string(newPath), "type": .string(new.type.rawValue),
                "objects": .integer(Int64(count)),
            ])
        }
    }
}
