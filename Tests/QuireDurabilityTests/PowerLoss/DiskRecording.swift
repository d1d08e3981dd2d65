import Foundation
import Quire

/// What programs did to a folder: changes and synchronizations, with what they said in between.
struct DiskRecording {
    /// What was done.
    enum Operation {
        case change(DiskChange, description: String)
        /// All changes of a node before this are durable: of a file its bytes, of a folder its names.
        case synchronize(node: Int, thing: String)
        /// The program said something.
        case line(String)
    }

    /// The folder before.
    let start: Disk
    private(set) var operations: [Operation] = []
    /// The folder as the programs see it.
    private(set) var disk: Disk
    private let root: String

    private struct OpenFile {
        var node: Int
        var path: String
        var position = 0
        var appends = false
    }

    private var open: [Int: OpenFile] = [:]
    /// The numbers of descriptors that are no longer open.
    private var closed: Set<Int> = []
    private var output = ""

    /// Begins with what is in a folder.
    init(of folder: String) throws {
        root = folder
        start = try Disk(contentsOf: folder)
        disk = start
    }

    /// Adds what a process did, after those before it.
    mutating func add(_ trace: SystemCallTrace) throws {
        open = [:]
        closed = []
        output = ""
        for call in trace.calls { try add(call) }
    }

    /// Forgets an operation and all that follow: what a process that is killed at that call leaves, since the kernel keeps what
    /// the calls before it have done.
    mutating func end(before index: Int) {
        operations.removeSubrange(index...)
        disk = start
        for (number, operation) in operations.enumerated() {
            if case .change(let change, _) = operation { disk.apply(change, number: number) }
        }
    }

    private enum Failure: Error, CustomStringConvertible {
        case unknown(SystemCallTrace.Call)
        case closed(SystemCallTrace.Call, Int)

        var description: String {
            switch self {
            case .unknown(let call): "The recording does not know what \(call.name) does."
            case .closed(let call, let number):
                "\(call.name) uses descriptor \(number), which is closed in the recording: it would be missing there."
            }
        }
    }

    // MARK: - Paths

    /// A path as relative to the folder; `nil` if it is elsewhere.
    private func relative(_ path: String, in folder: SystemCallTrace.Argument?) -> String? {
        var whole = path
        if !path.hasPrefix("/") {
            guard let number = folder?.number, let file = open[number] else { return nil }
            whole = root + "/" + file.path + "/" + path
        }
        guard whole == root || whole.hasPrefix(root + "/") else { return nil }
        return whole.dropFirst(root.count).split(separator: "/").joined(separator: "/")
    }

    private func relative(_ arguments: [SystemCallTrace.Argument], at index: Int) -> String? {
        relative(arguments[index + 1].text, in: arguments[index])
    }

    /// The index of shared memory, which SQLite makes anew from the log, is left out.
    private static func isIgnored(_ path: String) -> Bool { path.hasSuffix("-shm") }

    private func place(_ path: String) -> (folder: Int, name: String)? {
        guard let folder = disk.node(at: FileSystem.folder(of: path)) else { return nil }
        return (folder, FileSystem.name(of: path))
    }

    // MARK: - Calls

    /// Where a call's arguments are descriptors of files or folders. Pipes and the like may have the number of a closed file
    /// without the trace saying so; nothing is done with them but what is left out here.
    private static func descriptors(of call: String) -> [Int] {
        switch call {
        case "renameat", "renameat2", "linkat", "copy_file_range": [0, 2]
        case "openat", "openat2", "unlinkat", "mkdirat", "pwrite64", "ftruncate", "fsync",
            "fdatasync":
            [0]
        default: []
        }
    }

    private mutating func add(_ call: SystemCallTrace.Call) throws {
        let arguments = call.arguments
        func number(_ index: Int) -> Int {
            index < arguments.count ? arguments[index].number ?? -1 : -1
        }
        for number in Self.descriptors(of: call.name).map(number) where closed.contains(number) {
            throw Failure.closed(call, number)
        }
        switch call.name {
        case "open", "creat", "openat", "openat2": opened(call)
        case "close":
            open[number(0)] = nil
            closed.insert(number(0))
        case "dup", "dup2", "dup3":
            open[call.result] = open[number(0)]
            closed.remove(call.result)
        case "lseek": open[number(0)]?.position = call.result
        case "write": wrote(call, at: nil)
        case "pwrite64": wrote(call, at: number(3))
        case "ftruncate":
            if let file = open[number(0)] { change(.resize(file.node, number(1)), file.path) }
        case "copy_file_range": copied(call)
        case "ioctl":
            // A clone.
            if arguments.count > 2, arguments[1].text.contains("FICLONE"),
                let source = open[number(2)], let target = open[number(0)]
            {
                let bytes = disk.nodes[source.node].bytes
                change(.write(target.node, offset: 0, bytes), target.path)
            }
        case "fsync", "fdatasync":
            if let file = open[number(0)] {
                operations.append(
                    .synchronize(
                        node: file.node,
                        thing: SynchronizedThing.name(
                            of: file.path, isFolder: disk.nodes[file.node].isFolder)))
            }
        case "rename":
            renamed(
                relative(arguments[0].text, in: nil), relative(arguments[1].text, in: nil),
                exchanging: false)
        case "renameat", "renameat2":
            renamed(
                relative(arguments, at: 0), relative(arguments, at: 2),
                exchanging: arguments.last?.text.contains("EXCHANGE") == true)
        case "link":
            linked(relative(arguments[0].text, in: nil), relative(arguments[1].text, in: nil))
        case "linkat": linked(relative(arguments, at: 0), relative(arguments, at: 2))
        case "unlink", "rmdir": removed(relative(arguments[0].text, in: nil))
        case "unlinkat": removed(relative(arguments, at: 0))
        case "mkdir": made(relative(arguments[0].text, in: nil))
        case "mkdirat": made(relative(arguments, at: 0))
        default:
            // Elsewhere they may do what they like.
            if SystemCallTrace.calls.contains(call.name), open[number(0)] != nil {
                throw Failure.unknown(call)
            }
        }
    }

    private mutating func change(_ change: DiskChange, _ description: String) {
        disk.apply(change, number: operations.count)
        let verb =
            switch change {
            case .write(_, let offset, let bytes): "write \(bytes.count) at \(offset) of"
            case .resize(_, let size): "resize to \(size)"
            case .names: "name"
            }
        operations.append(.change(change, description: "\(verb) \(description)"))
    }

    private mutating func opened(_ call: SystemCallTrace.Call) {
        let isAt = call.name != "open" && call.name != "creat"
        let path =
            isAt ? relative(call.arguments, at: 0) : relative(call.arguments[0].text, in: nil)
        let flags = call.arguments.map(\.text).filter { $0.contains("O_") }.joined()
        open[call.result] = nil
        closed.remove(call.result)
        guard let path, !Self.isIgnored(path) else { return }
        if disk.node(at: path) == nil, flags.contains("O_CREAT") || call.name == "creat",
            let (folder, name) = place(path)
        {
            let node = disk.add(isFolder: false)
            change(.names([.init(folder: folder, name: name, node: node)]), path)
        }
        guard let node = disk.node(at: path) else { return }
        if flags.contains("O_TRUNC") || call.name == "creat" { change(.resize(node, 0), path) }
        open[call.result] = OpenFile(
            node: node, path: path, appends: flags.contains("O_APPEND"))
    }

    private mutating func wrote(_ call: SystemCallTrace.Call, at offset: Int?) {
        guard case .bytes(let all) = call.arguments[1], let number = call.arguments[0].number else {
            return
        }
        let bytes = Array(all.prefix(call.result))
        if number == 1 {
            output += String(decoding: bytes, as: UTF8.self)
            while let end = output.firstIndex(of: "\n") {
                operations.append(.line(String(output[..<end])))
                output.removeSubrange(...end)
            }
        }
        guard var file = open[number] else { return }
        let place = offset ?? (file.appends ? disk.nodes[file.node].bytes.count : file.position)
        change(.write(file.node, offset: place, bytes), file.path)
        if offset == nil { file.position = place + bytes.count }
        open[number] = file
    }

    private mutating func copied(_ call: SystemCallTrace.Call) {
        guard let from = call.arguments[0].number, let to = call.arguments[2].number,
            let source = open[from], let target = open[to], call.result > 0
        else { return }
        let bytes = disk.nodes[source.node].bytes
        change(
            .write(
                target.node, offset: target.position,
                Array(bytes[source.position..<source.position + call.result])), target.path)
        open[from]?.position += call.result
        open[to]?.position += call.result
    }

    private mutating func renamed(_ path: String?, _ newPath: String?, exchanging: Bool) {
        guard let path, let newPath, let from = place(path), let to = place(newPath),
            let node = disk.node(at: path)
        else { return }
        let other = exchanging ? disk.node(at: newPath) : nil
        change(
            .names([
                .init(
                    folder: from.folder, name: from.name, node: other,
                    isFolder: other.map { disk.nodes[$0].isFolder } ?? false),
                .init(
                    folder: to.folder, name: to.name, node: node,
                    isFolder: disk.nodes[node].isFolder),
            ]), "\(path) → \(newPath)")
    }

    private mutating func linked(_ path: String?, _ newPath: String?) {
        guard let path, let newPath, let to = place(newPath), let node = disk.node(at: path) else {
            return
        }
        change(.names([.init(folder: to.folder, name: to.name, node: node)]), newPath)
    }

    private mutating func removed(_ path: String?) {
        guard let path, !Self.isIgnored(path), let (folder, name) = place(path) else { return }
        change(.names([.init(folder: folder, name: name, node: nil)]), "\(path), removed")
    }

    private mutating func made(_ path: String?) {
        guard let path, let (folder, name) = place(path) else { return }
        let node = disk.add(isFolder: true)
        change(.names([.init(folder: folder, name: name, node: node, isFolder: true)]), path)
    }
}

/// What a synchronized file or folder is to a document.
enum SynchronizedThing {
    /// The name of the kind of thing that is at a path.
    static func name(of path: String, isFolder: Bool) -> String {
        var parts = path.split(separator: "/").map(String.init)
        guard let package = parts.first else { return "folder of documents" }
        let isNew = FileSystem.isTemporaryName(package)
        parts.removeFirst()
        // Beside an archive is the copy of the package that it is made of.
        let isOfArchive = package.contains(".zip")
        let name =
            switch (isOfArchive, isFolder || !parts.isEmpty) {
            case (false, _): part(parts, isFolder: isFolder)
            case (true, false): "archive"
            case (true, true): "copy to archive"
            }
        return isNew && !isOfArchive ? "new \(name)" : name
    }

    private static func part(_ parts: [String], isFolder: Bool) -> String {
        switch (parts.first, parts.count) {
        case (nil, _): "package"
        case ("AdditionalContent", 1): "content folder"
        case ("AdditionalContent", _): isFolder ? "generation folder" : "content file"
        case ("StoreContent", 1): "store folder"
        case ("StoreContent", 2) where isFolder: "support folder"
        case ("StoreContent", 2):
            switch parts[1] {
            case "persistentStore": "store"
            case "persistentStore-wal": "log"
            case "persistentStore-journal": "journal"
            default: "new store"
            }
        case ("StoreContent", 3): "external folder"
        case ("StoreContent", _): "external file"
        case (_, 1) where parts[0].contains("DocumentMetadata"): "metadata"
        case (_, 1) where parts[0].contains(StoreProtection.keybagName): "keybag"
        case ("Versions", 1): "versions folder"
        case ("Versions", _): isFolder ? "version folder" : "version file"
        case (".lock", 1): "lock"
        case (let first?, _) where first.hasPrefix(".StoreContent."):
            "staged \(part(Array(parts.dropFirst()), isFolder: isFolder))"
        default: "other"
        }
    }
}
