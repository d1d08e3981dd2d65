import Foundation
import Testing

/// Rules of the source tree that the compiler does not enforce. Which module may use which is in `Package.swift`.
@Suite struct LayerTests {
    private static let top = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let sources = top.appendingPathComponent("Sources")

    private static func swiftFiles() throws -> [(path: String, text: String)] {
        let enumerator = try #require(FileManager.default.enumerator(atPath: sources.path))
        return try enumerator.compactMap { $0 as? String }.filter { $0.hasSuffix(".swift") }.map {
            ($0, try String(contentsOf: sources.appendingPathComponent($0), encoding: .utf8))
        }
    }

    /// SwiftPM lets a target import what its dependencies depend on.
    @Test func modulesImportWhatTheyDeclare() throws {
        let package = try String(
            contentsOf: Self.top.appendingPathComponent("Package.swift"), encoding: .utf8)
        var declared: [String: Set<String>] = [:]
        for target in package.matches(
            of:
                /(?:\.(?:target|executableTarget|macro)\(\s*name: |module\(\s*)"(\w+)"(,\s*(?:dependencies: )?\[[^\]]*\])?/
        ) {
            let dependencies = target.2.map(String.init) ?? ""
            declared[String(target.1)] = Set(
                dependencies.matches(of: /"(\w+)"/).map { String($0.1) })
        }
        let systemLibraries: Set = ["CSQLite", "CLibXML2", "CArchive", "CZLib"]
        let ours = Set(declared.keys).union(systemLibraries)
        #expect(ours.isSuperset(of: ["QuireSystem", "QuireModel", "Quire", "QuireDocuments"]))
        for (path, text) in try Self.swiftFiles() {
            let module = String(path.prefix { $0 != "/" })
            let allowed = try #require(declared[module], "\(module) is in Package.swift")
            for line in text.matches(
                of: /(?m)^(?:@\w+ )*(?:public |package |internal )?import (\w+)$/)
            where ours.contains(String(line.1)) {
                #expect(allowed.contains(String(line.1)), "\(path) imports \(line.1)")
            }
        }
    }

    /// Handles of C libraries have few owners.
    @Test(arguments: [
        ("CSQLite", ["QuireSQLite/"]),
        (
            "CLibXML2",
            [
                "QuireModelFiles/ModelXMLReader", "QuireModelFiles/ModelXMLWriter",
                "QuireAtomicStores/XML/",
            ]
        ),
        ("CZLib", ["QuireSystem/RawDeflate"]),
        ("CArchive", ["QuireDocuments/Archive/"]),
        (
            "CLinux",
            [
                "QuireSystem/", "QuireProtection/AuthenticatedEncryption",
                "QuireProtection/UserKeyring", "QuireProtection/PageCipher",
                "QuireDocuments/Coordination/LocalSocket",
            ]
        ),
    ])
    func cIsContained(module: String, allowed: [String]) throws {
        for (path, text) in try Self.swiftFiles() where text.contains("import \(module)") {
            #expect(
                allowed.contains { path.hasPrefix($0) }, "\(path) imports \(module)")
        }
    }

    /// The thread sanitizer does not see what `Mutex` orders.
    @Test func locksAreThoseOfQuireSystem() throws {
        for (path, text) in try Self.swiftFiles() where path != "QuireSystem/Lock.swift" {
            #expect(!text.contains(/\bMutex[<(]/), "\(path) uses Mutex; take Lock.")
        }
    }

    /// Folders of `Quire` in dependency order, with types that only they and those below may name.
    private static let order: [(folder: String, types: [String])] = [
        ("Coordinator/", ["PersistentStoreCoordinator", "ObjectSource"]),
        ("Graph/", ["ManagedObjectContext", "ManagedObject", "QueueConfinedContext"]),
        ("Results/", ["FetchedResultsController", "FetchedResultsSnapshot"]),
        ("Container/", ["PersistentContainer"]),
    ]

    @Test func foldersNameOnlyWhatStandsAbove() throws {
        for (path, text) in try Self.swiftFiles()
        where path.hasPrefix("Quire/") && path != "Quire/Exports.swift" {
            let inside = path.dropFirst("Quire/".count)
            let place = try #require(
                Self.order.firstIndex { inside.hasPrefix($0.folder) },
                "\(path) is in no known folder")
            // Comments may name anything.
            let code = text.split(separator: "\n").filter {
                !$0.drop(while: { $0 == " " }).hasPrefix("//")
            }.joined(separator: "\n")
            let words = Set(
                code.split(whereSeparator: { !($0.isLetter || $0.isNumber || $0 == "_") }).map(
                    String.init))
            for (_, types) in Self.order[(place + 1)...] {
                for type in types { #expect(!words.contains(type), "\(path) names \(type)") }
            }
        }
    }
}
