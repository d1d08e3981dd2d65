import Foundation
import Quire

/// A folder with everything in it, as files and names that are durable or not independently of each other.
struct Disk {
    /// A file or a folder.
    struct Node {
        var isFolder: Bool
        /// What the names in the folder lead to.
        var names: [String: Int] = [:]
        var bytes: [UInt8] = []
        /// Tells contents apart: which changes have been made, in their order.
        var version = 0
    }

    /// The root is the first.
    private(set) var nodes = [Node(isFolder: true)]

    static let root = 0

    /// An empty folder.
    init() {}

    /// What is in a folder.
    init(contentsOf path: String) throws {
        for (name, information) in try FileSystem.contentsOfTree(path) {
            var node = Node(isFolder: information.kind == .folder)
            if information.kind == .regular {
                node.bytes = Array(try FileSystem.contents(of: FileSystem.path(path, name)))
            }
            let parent = self.node(at: FileSystem.folder(of: name)) ?? Self.root
            nodes.append(node)
            nodes[parent].names[FileSystem.name(of: name)] = nodes.count - 1
        }
    }

    /// What a relative path leads to.
    func node(at path: String) -> Int? {
        var current = Self.root
        for part in path.split(separator: "/") where part != "." {
            guard let next = nodes[current].names[String(part)] else { return nil }
            current = next
        }
        return current
    }

    /// A new node that no name leads to yet.
    mutating func add(isFolder: Bool) -> Int {
        nodes.append(Node(isFolder: isFolder))
        return nodes.count - 1
    }

    // MARK: - Changing

    /// What of a write arrived.
    enum Tear: Hashable, CaseIterable {
        /// The first half, to a multiple of 512 bytes.
        case head
        /// The second half.
        case tail
        /// The length, but no bytes.
        case zeros
    }

    /// Carries a change out. Changes of nodes that are not there yet are carried out as well.
    mutating func apply(_ change: DiskChange, number: Int, torn tear: Tear? = nil) {
        switch change {
        case .write(let node, let offset, let bytes):
            prepare(node, isFolder: false)
            write(bytes, at: offset, to: node, torn: tear)
            note(number, node, tear)
        case .resize(let node, let size):
            prepare(node, isFolder: false)
            resize(node, to: size)
            note(number, node, tear)
        case .names(let changes):
            for change in changes {
                prepare(change.folder, isFolder: true)
                if let node = change.node { prepare(node, isFolder: change.isFolder) }
                nodes[change.folder].names[change.name] = change.node
            }
        }
    }

    private mutating func note(_ number: Int, _ node: Int, _ tear: Tear?) {
        var hasher = Hasher()
        hasher.combine(nodes[node].version)
        hasher.combine(number)
        hasher.combine(tear)
        nodes[node].version = hasher.finalize()
    }

    private mutating func prepare(_ node: Int, isFolder: Bool) {
        while nodes.count <= node { nodes.append(Node(isFolder: false)) }
        if isFolder { nodes[node].isFolder = true }
    }

    private mutating func write(
        _ bytes: [UInt8], at offset: Int, to node: Int, torn tear: Tear?
    ) {
        var range = 0..<bytes.count
        let half = bytes.count / 2 / 512 * 512
        if tear == .head { range = 0..<half }
        if tear == .tail { range = half..<bytes.count }
        let needed = offset + (tear == .head ? half : bytes.count)
        if nodes[node].bytes.count < needed { resize(node, to: needed) }
        if tear == .zeros { return }
        nodes[node].bytes.replaceSubrange(
            offset + range.lowerBound..<offset + range.upperBound, with: bytes[range])
    }

    private mutating func resize(_ node: Int, to size: Int) {
        let count = nodes[node].bytes.count
        if size < count {
            nodes[node].bytes.removeLast(count - size)
        } else {
            nodes[node].bytes += [UInt8](repeating: 0, count: size - count)
        }
    }

    // MARK: - Looking

    /// Equal for disks on which the same names lead to the same contents.
    var fingerprint: Int {
        var hasher = Hasher()
        func visit(_ node: Int) {
            for (name, next) in nodes[node].names.sorted(by: { $0.key < $1.key }) {
                hasher.combine(name)
                hasher.combine(next)
                hasher.combine(nodes[next].version)
                if nodes[next].isFolder {
                    visit(next)
                    hasher.combine(0)
                }
            }
        }
        visit(Self.root)
        return hasher.finalize()
    }

    /// Writes everything to a new folder.
    func write(to path: String, node: Int = Disk.root) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        for (name, next) in nodes[node].names {
            let target = FileSystem.path(path, name)
            if nodes[next].isFolder {
                try write(to: target, node: next)
            } else {
                let file = try OpenFile.open(target, for: .creating)
                try file.write(Data(nodes[next].bytes))
            }
        }
    }
}

/// A change of a disk, which a power loss undoes unless it has been synchronized.
enum DiskChange {
    /// What becomes of a name.
    struct NameChange {
        var folder: Int
        var name: String
        /// What it leads to; `nil` for nothing.
        var node: Int?
        var isFolder = false
    }

    case write(Int, offset: Int, [UInt8])
    case resize(Int, Int)
    /// Names that change together, or not at all.
    case names([NameChange])
}
