import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire content …`
struct ContentCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "content",
        abstract: "Lists, reads and changes a document's additional content.",
        discussion: """
            Files of any size are streamed, never held in memory. Each change is one save: it is complete, or \
            nothing changes.

            EXAMPLES:
              quire content list Notes.quire
              quire content add Notes.quire Style.css covers --to web
              tar c src | quire content add Notes.quire - --as src.tar
              quire content get Notes.quire web/Style.css > Style.css
              quire content get Notes.quire web --output web
              quire content remove Notes.quire web/covers
            """,
        subcommands: [
            ContentListCommand.self, ContentAddCommand.self, ContentGetCommand.self,
            ContentRemoveCommand.self,
        ])
}

/// The document of a command about additional content.
struct ContentDocument: ParsableArguments {
    @Argument(
        help: ArgumentHelp("A document package; for reading, also an archive.", valueName: "PATH"))
    var path: String

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption

    func with<Result>(
        writing: Bool, _ body: (DocumentPackage) throws -> Result
    ) throws -> Result {
        let package: DocumentPackage
        if !writing, try DocumentPath.kind(of: path) == .archive {
            package = try unlock.open(archive: path)
        } else {
            try DocumentPath.requirePackage(path, "only packages have additional content")
            try unlock.unlock(path)
            package = try DocumentPackage.open(
                at: path, readOnly: !writing, waiting: wait.lockWait(for: path))
        }
        defer { package.closeSaved() }
        do { return try body(package) } catch { throw package.naming(path, in: error) }
    }

    /// The files that a path means: the file, or those in the folder.
    static func files(
        _ path: String, in package: DocumentPackage
    ) throws -> [(path: String, size: Int64)] {
        let path = path.hasSuffix("/") ? String(path.dropLast()) : path
        let files = try package.additionalContent()
        // Of files whose names differ only in the form of accents, the one that is meant exactly.
        let named = files.filter { $0.path == path }
        if let file = named.first(where: { FileName($0.path) == FileName(path) }) ?? named.first {
            return [file]
        }
        let meant = files.filter { FileName.isPath($0.path, inFolder: path) }
        if meant.isEmpty { throw QuireError.noContent(path, in: package.layout.path) }
        return meant
    }
}

/// `quire content list PATH`
struct ContentListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists the files of additional content.")

    @OptionGroup var document: ContentDocument

    @Argument(help: ArgumentHelp("Only this file or folder.", valueName: "FILE"))
    var file: String?

    @OptionGroup var printing: RowOptions

    func run() async throws {
        try Defaults.read(besideDocument: document.path)
        let files = try document.with(writing: false) { package in
            try file.map { try ContentDocument.files($0, in: package) }
                ?? package.additionalContent()
        }
        try printing.print {
            try $0.printRows(
                of: files, [("file", .left), ("bytes", .right)], members: ["path", "bytes"],
                ifEmpty: "No additional content."
            ) { ([$0.path, "\($0.size)"], ContentFile.json($0)) }
        }
    }
}

/// A file of additional content, as commands print it.
enum ContentFile {
    static func json(_ file: (path: String, size: Int64)) -> JSONValue {
        .object(["path": .string(file.path), "bytes": .integer(file.size)])
    }

    /// A table of files after an empty line; nothing without files.
    static func lines(_ files: [(path: String, size: Int64)]) -> [String] {
        if files.isEmpty { return [] }
        let rows = files.map { [$0.path, "\($0.size)"] }
        return [""]
            + TextTable([("additional content", .left), ("bytes", .right)], rows: rows).lines
    }
}

/// `quire content add PATH FILE …`
struct ContentAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Adds files and folders, or replaces them.",
        discussion: "Keeps the executable permission, not the dates.")

    @OptionGroup var document: ContentDocument

    @Argument(help: ArgumentHelp("Files and folders, or - for standard input.", valueName: "FILE"))
    var files: [String]

    @Option(
        help: ArgumentHelp(
            "Add them to this folder of the additional content.", valueName: "FOLDER"))
    var to: String?

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp("The new name of a single file or folder.", valueName: "NAME"))
    var name: String?

    @OptionGroup var printing: JSONOption

    func validate() throws {
        if name != nil, files.count != 1 {
            throw ValidationError("--as requires a single file or folder.")
        }
        if name == nil, files.contains("-") {
            throw ValidationError("Specify a name for standard input with --as.")
        }
    }

    func run() async throws {
        var sources: [String: AdditionalContentSource] = [:]
        for file in files {
            for (path, source) in try content(of: file) {
                if sources.updateValue(source, forKey: path) != nil {
                    throw QuireError(
                        .invalidValue,
                        "Two files would be named “\(path)”; add one of them separately with --as.",
                        file: path)
                }
            }
        }
        try document.with(writing: true) { try $0.changeAdditionalContent(adding: sources) }
        let paths = sources.keys.sorted()
        try printing.printResult(
            levels: 2, paths.isEmpty ? ["No files to add."] : paths.map { "Added \(FileName($0))." }
        ) { .object(["added": .array(paths.map { .string(FileName($0).text) })]) }
    }

    private func content(of file: String) throws -> [String: AdditionalContentSource] {
        let prefix = to.map { $0.hasSuffix("/") ? $0 : $0 + "/" } ?? ""
        if file == "-" { return [prefix + (name ?? ""): .handle(.standardInput)] }
        let path = prefix + (name ?? URL(fileURLWithPath: file).standardized.lastPathComponent)
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: file, isDirectory: &isFolder) else {
            throw QuireError.notFound(at: file)
        }
        return isFolder.boolValue
            ? try DocumentPackage.additionalContent(ofFolder: file, at: path) : [path: .file(file)]
    }
}

/// `quire content get PATH FILE`
struct ContentGetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract:
            "Writes a file of additional content to standard output, or a file or folder to a path."
    )

    @OptionGroup var document: ContentDocument

    @Argument(help: ArgumentHelp("The file or folder.", valueName: "FILE"))
    var file: String

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("The new file or folder; it must not exist.", valueName: "OUT"))
    var output: String?

    func run() async throws {
        try document.with(writing: false) { package in
            let files = try ContentDocument.files(file, in: package)
            let isFile = files.count == 1 && files[0].path == file
            guard let output else {
                guard isFile else {
                    throw QuireError(
                        .invalidValue,
                        "“\(file)” is a folder; specify its destination with --output.", file: file)
                }
                return try copy(files[0].path, from: package, by: Output.write)
            }
            if FileManager.default.fileExists(atPath: output) {
                throw QuireError.alreadyExists(at: output)
            }
            if isFile { return try copy(files[0].path, from: package, toPath: output) }
            let depth = FileSystem.components(of: file).filter { !$0.isEmpty }.count
            for (path, _) in files {
                let rest = FileSystem.components(of: path).dropFirst(depth)
                try copy(path, from: package, toPath: output + "/" + rest.joined(separator: "/"))
            }
        }
    }

    private func copy(_ path: String, from package: DocumentPackage, toPath target: String) throws {
        let folder = FileSystem.folder(of: target)
        do {
            try FileSystem.makeFolder(
                FileSystem.absolute(folder), withIntermediates: true)
            // The name may be one that is not UTF-8.
            let file = try OpenFile.open(target, for: .creating)
            defer { file.close() }
            do { try copy(path, from: package) { try file.write($0) } } catch {
                // It would be taken for the whole file.
                try? FileSystem.removeFile(target)
                throw error
            }
        } catch let error where !(error is QuireError) {
            throw QuireError(
                .inputOutput, "“\(target)” could not be written: \(error.localizedDescription)",
                file: target, underlying: error)
        }
    }

    private func copy(
        _ path: String, from package: DocumentPackage,
        by write: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        if try package.readAdditionalContent(at: path, write) { return }
        throw QuireError.noContent(path, in: package.layout.path)
    }
}

/// `quire content remove PATH FILE …`
struct ContentRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Removes files and folders of additional content.")

    @OptionGroup var document: ContentDocument

    @Argument(help: ArgumentHelp("Files and folders.", valueName: "FILE"))
    var files: [String]

    @OptionGroup var printing: JSONOption

    func run() async throws {
        let removed = try document.with(writing: true) { package in
            var names: Set<FileName> = []
            for file in files {
                names.formUnion(
                    try ContentDocument.files(file, in: package).map { FileName($0.path) })
            }
            let paths = names.sorted().map(\.text)
            try package.changeAdditionalContent(removing: paths)
            return paths
        }
        try printing.printResult(levels: 2, removed.map { "Removed \($0)." }) {
            .object(["removed": .array(removed.map { .string($0) })])
        }
    }
}
