import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireModel

@Suite struct VersionHashTests {
    private func library(
        _ change: (inout EntityDescription) -> Void = { _ in }
    ) -> ManagedObjectModel {
        var model = ManagedObjectModel {
            Entity("Item") { Attribute("created", .date) }.abstract()
            Entity("Book", inherits: "Item") {
                Attribute("title", .string).required()
                Attribute("place", composite: "Point")
                ToOne("author", "Author", inverse: "books")
            }
            Entity("Author") {
                Attribute("name", .string)
                ToMany("books", "Book", inverse: "author").ordered()
            }
            Composite("Point") { Attribute("x", .double) }
        }
        change(&model.entities[1])
        return model
    }

    /// Stores keep these: they may never change.
    @Test func hashesNeverChange() throws {
        #expect(
            library().entityVersionHashes().mapValues { $0.base64EncodedString() } == [
                "Author": "39sRM4vqnPJrV+NW1eNq4gCx5OCzLnvP/8nZMBxbNDw=",
                "Book": "NS1pqACRMcLmkV/87aA2+poFLq/BG8TVq6Gx769TJLg=",
                "Item": "3f+wBzGXYwCKWkGxyda+m0iVWr3Qx+ICLcnZv6pSia4=",
            ])
    }

    @Test func whatIsStoredMakesADifference() throws {
        let changes: [(String, (inout EntityDescription) -> Void)] = [
            ("abstract", { $0.isAbstract = true }),
            ("superentity", { $0.superentityName = nil }),
            ("modifier", { $0.versionHashModifier = "2" }),
            ("fewer", { $0.properties.removeLast() }),
            (
                "attribute name",
                { $0.properties[0] = .attribute(.init(name: "name", type: .string)) }
            ),
            ("optional", { $0.properties[0] = .attribute(.init(name: "title", type: .string)) }),
            ("type", { $0.properties[0] = Self.title { $0.type = .uri } }),
            (
                "external",
                { $0.properties[0] = Self.title { $0.allowsExternalBinaryDataStorage = true } }
            ),
            (
                "derived",
                { $0.properties[0] = Self.title { $0.derivationExpression = "author.name" } }
            ),
            (
                "attribute modifier",
                { $0.properties[0] = Self.title { $0.versionHashModifier = "2" } }
            ),
            (
                "destination",
                { $0.properties[2] = Self.author { $0.destinationEntityName = "Item" } }
            ),
            ("inverse", { $0.properties[2] = Self.author { $0.inverseName = nil } }),
            ("to-many", { $0.properties[2] = Self.author { $0.isToMany = true } }),
            ("ordered", { $0.properties[2] = Self.author { $0.isOrdered = true } }),
            ("count", { $0.properties[2] = Self.author { $0.minimumCount = 1 } }),
            ("rule", { $0.properties[2] = Self.author { $0.deleteRule = .deny } }),
            ("relationship optional", { $0.properties[2] = Self.author { $0.isOptional = false } }),
        ]
        let base = library().entityVersionHashes()
        var seen: Set<Data?> = [base["Book"]]
        for (name, change) in changes {
            let hashes = library(change).entityVersionHashes()
            #expect(seen.insert(hashes["Book"]).inserted, "\(name)")
            #expect(hashes["Author"] == base["Author"], "\(name)")
        }
    }

    @Test func whatIsNotStoredMakesNoDifference() throws {
        let base = library().entityVersionHashes()
        let other = library {
            $0.managedObjectClassName = "Buch"
            $0.userInfo = ["a": "b"]
            $0.renamingIdentifier = "Volume"
            $0.versionHashModifier = ""
            $0.indexes = [.init(name: "i", elements: ["title"])]
            $0.uniquenessConstraints = [["title"]]
            $0.properties[0] = Self.title {
                $0.defaultValue = "x"
                $0.minimum = 1
                $0.regularExpression = "x"
                $0.userInfo = ["a": "b"]
            }
            $0.properties.append(.attribute(Attribute("shown", .string).transient().description))
            $0.properties.append(.fetched(FetchedProperty("all", of: "Book").description))
            $0.properties.reverse()
        }.entityVersionHashes()
        #expect(base == other)
    }

    @Test func aSubentityDependsOnWhatItInherits() {
        var model = library()
        model.entities[0].properties.append(.attribute(.init(name: "changed", type: .date)))
        #expect(model.entityVersionHashes()["Book"] != library().entityVersionHashes()["Book"])
        model = library()
        model.composites[0].elements[0].type = .float
        #expect(model.entityVersionHashes()["Book"] != library().entityVersionHashes()["Book"])
        #expect(model.entityVersionHashes()["Item"] == library().entityVersionHashes()["Item"])
    }

    @Test func contradictoryModelsHaveHashesToo() {
        let model = ManagedObjectModel {
            Entity("A", inherits: "B") { Attribute("x", composite: "C") }
            Entity("B", inherits: "A")
            Entity("D", inherits: "Z")
            Composite("C") { Attribute("c", composite: "C") }
        }
        #expect(Set(model.entityVersionHashes().keys) == ["A", "B", "D"])
    }

    private static func title(
        _ change: (inout AttributeDescription) -> Void
    ) -> PropertyDescription {
        .attribute(modified(Attribute("title", .string).required().description, change))
    }

    private static func author(
        _ change: (inout RelationshipDescription) -> Void
    ) -> PropertyDescription {
        .relationship(modified(ToOne("author", "Author", inverse: "books").description, change))
    }

    // MARK: - Digest and checksum

    /// The numbers are those of a store that Core Data made.
    @Test func digestAndChecksumAreCoreDatas() throws {
        let hashes = try [
            "SyncableSettingsMetadata": "07TVVttplTirki70JOWjXKp+1ibymh2PA79QnD1zfC0=",
            "SyncFeatureEntity": "KJuJcDoyFq/pc6B+GIlTTYZQd35E74mZMFacZyHqw1c=",
        ].mapValues { try #require(Data(base64Encoded: $0)) }
        #expect(
            ManagedObjectModel.versionHashesDigest(of: hashes)
                == "7JWfU0xmS3IPFF52TGXSFXUZa1Qep5S4UrWN5w+CErIaLxp0rYoMraOHWZodtjiMa3Og/MwRJeXpB4IQKrWvYQ=="
        )
        #expect(
            ManagedObjectModel.versionChecksum(of: hashes)
                == "GuHTA/HnFj+qOrWtQ82hDdTCKqWSki1JPVIij/T8COs=")
    }

    @Test(.corpus) func checksumsOfCompiledModelsAgree() throws {
        let files = Corpus.files { $0.hasSuffix("VersionInfo.plist") }
        try #require(!files.isEmpty)
        var count = 0
        for file in files {
            let list = try PropertyListSerialization.propertyList(
                from: Data(contentsOf: file), format: nil)
            let entries = try #require(list as? [String: Any])
            let hashes =
                entries["NSManagedObjectModel_VersionHashes"] as? [String: [String: Data]] ?? [:]
            let checksums =
                entries["NSManagedObjectModel_VersionChecksums"] as? [String: String] ?? [:]
            for (version, checksum) in checksums {
                let versionHashes = try #require(hashes[version])
                #expect(ManagedObjectModel.versionChecksum(of: versionHashes) == checksum)
                count += 1
            }
        }
        #expect(count > 0)
    }
}
