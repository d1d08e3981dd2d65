import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireModelFiles

@Suite struct CompilingTests {
    @Test(.corpus) func compiledSourcesReadLikeTheirSources() throws {
        let sources = try Corpus.sourceModels()
        try #require(!sources.isEmpty)
        for (index, (path, model)) in sources.enumerated() {
            let forms: [CompiledModelEncoder.Form] = index % 4 == 0 ? [.file, .store] : [.file]
            for form in forms {
                let (data, omissions) = CompiledModelEncoder.archive(of: model, for: form)
                var (read, remarks) = try CompiledModelDecoder.read(data, name: path)
                read.composites = model.composites.isEmpty ? read.composites : model.composites
                if model.fetchRequestTemplates.contains(where: \.returnsDistinctResults) {
                    #expect(omissions.count == 1 && omissions[0].contains("options"))
                    read.fetchRequestTemplates = model.fetchRequestTemplates
                } else {
                    #expect(omissions == [], "\(path)")
                }
                #expect(remarks == [], "\(path)")
                let differences = read.asCompiled.withoutNames
                    .differences(from: model.asCompiled.withoutNames)
                #expect(differences == [], "\(path)")
            }
        }
    }

    /// What the archives of Apple's tools have: of every class its ancestors and its fields.
    private func shapes(
        of archives: [(path: String, data: Data)]
    ) throws -> [String: (classes: Set<[String]>, keys: Set<String>)] {
        var shapes: [String: (classes: Set<[String]>, keys: Set<String>)] = [:]
        for (path, data) in archives {
            let archive = try KeyedArchive(data, name: path)
            for number in 1..<archive.objectCount {
                guard let object = try archive.objectIfAny(.reference(number)) else { continue }
                shapes[object.className, default: ([], [])].classes.insert(object.classNames)
                shapes[object.className, default: ([], [])].keys.formUnion(object.keys)
            }
        }
        return shapes
    }

    @Test(.corpus) func archivesHaveTheClassesAndFieldsOfThoseOfApple() throws {
        let files = try Corpus.files { $0.hasSuffix(".mom") }.map {
            ($0.path, try Data(contentsOf: $0))
        }
        let caches = try Corpus.modelCaches().map {
            ($0.path, try #require(RawDeflate.decompressed($0.data)))
        }
        try #require(!files.isEmpty)
        for (form, archives) in [
            (CompiledModelEncoder.Form.file, files), (.store, caches),
        ] {
            let known = try shapes(of: archives)
            let ours = try shapes(
                of: archives.map { path, data in
                    let model = try ManagedObjectModel(compiledModel: data, name: path)
                    return (path, CompiledModelEncoder.archive(of: model, for: form).data)
                })
            for (name, shape) in ours {
                let real = try #require(known[name], "\(name)")
                #expect(shape.classes == real.classes, "\(name)")
                #expect(shape.keys.subtracting(real.keys) == [], "\(name)")
            }
            for name in [
                "NSManagedObjectModel", "NSEntityDescription", "NSRelationshipDescription",
            ] {
                let ignored: Set = ["CDMCompilerToolVersion", "CDMCompilerXcodeVersion"]
                let missing = known[name]?.keys.subtracting(ours[name]?.keys ?? [])
                #expect(missing?.subtracting(ignored) == [], "\(name)")
            }
        }
    }

    private static func everything() throws -> ManagedObjectModel {
        var model = ManagedObjectModel()
        var thing = EntityDescription(name: "Thing")
        let defaults: [(AttributeType, AttributeValue)] = [
            (.integer16, -5), (.integer32, 70_000), (.integer64, .integer(.max)),
            (.decimal, .decimal(Decimal(string: "12.5") ?? 0)), (.double, 0.1), (.float, 0.5),
            (.string, "Łódź"), (.boolean, true),
            (.date, .date(Date(timeIntervalSinceReferenceDate: 1.5))),
            (.binary, .binary(Data([1, 2]))), (.uuid, .uuid(UUID())),
            (.uri, .uri(try #require(URL(string: "https://example.org/a?b")))),
        ]
        for (index, (type, value)) in defaults.enumerated() {
            var attribute = AttributeDescription(name: "a\(index)", type: type)
            attribute.defaultValue = value
            attribute.isOptional = index % 2 == 0
            thing.properties.append(.attribute(attribute))
        }
        var bounded = AttributeDescription(name: "bounded", type: .integer32)
        (bounded.minimum, bounded.maximum) = (-3, 9)
        bounded.validationPredicates = [
            .init("modulus:by:(SELF, 2) == 0", message: "must be even"),
            .init("SELF != 4"), .init("SELF BETWEEN {1, 8} OR SELF == nil"),
        ]
        thing.properties.append(.attribute(bounded))
        var text = AttributeDescription(name: "text", type: .string)
        (text.minimum, text.maximum, text.regularExpression) = (1, 40, "[a-z]+")
        text.isIndexed = true
        text.userInfo = ["k": "v"]
        text.versionHashModifier = "2"
        text.renamingIdentifier = "oldText"
        thing.properties.append(.attribute(text))
        var file = AttributeDescription(name: "file", type: .binary)
        file.allowsExternalBinaryDataStorage = true
        file.preservesValueInHistoryOnDeletion = true
        file.allowsCloudEncryption = true
        file.isIndexedBySpotlight = true
        thing.properties.append(.attribute(file))
        var folded = AttributeDescription(name: "folded", type: .string)
        folded.derivationExpression = "canonical:(text)"
        thing.properties.append(.attribute(folded))
        var number = AttributeDescription(name: "number", type: .integer64)
        number.derivationExpression = "parts.@count"
        thing.properties.append(.attribute(number))
        var place = AttributeDescription(name: "place", type: .composite)
        place.compositeName = "Place"
        thing.properties.append(.attribute(place))
        model.composites = [
            .init(
                name: "Place",
                elements: [.init(name: "lat", type: .double), .init(name: "lon", type: .double)])
        ]
        var parts = RelationshipDescription(name: "parts", destination: "Part", inverse: "whole")
        parts.isToMany = true
        parts.isOrdered = true
        parts.minimumCount = 1
        parts.maximumCount = 7
        parts.deleteRule = .cascade
        thing.properties.append(.relationship(parts))
        var request = FetchRequestTemplate(name: "fetchedPropertyFetchRequest", entityName: "Part")
        request.predicateFormat = "label BEGINSWITH \"x\" AND whole == $FETCH_SOURCE"
        request.sortOrderings = [
            SortOrdering("label", ascending: false, options: .caseInsensitive),
            SortOrdering("whole.text", options: [.caseInsensitive, .localized]),
        ]
        request.fetchOffset = 2
        thing.properties.append(.fetched(.init(name: "found", fetchRequest: request)))
        thing.uniquenessConstraints = [["text"], ["a0", "a1"]]
        thing.isAbstract = true
        thing.renamingIdentifier = "OldThing"
        thing.versionHashModifier = "m"
        thing.userInfo = ["a": "b"]
        var two = FetchIndexDescription(
            name: "two",
            elements: [.init(propertyName: "a0"), .init(propertyName: "a1", isAscending: false)])
        two.partialIndexPredicate = "a0 > 3 AND a1 != nil"
        var area = FetchIndexDescription(
            name: "area", elements: [.init(propertyName: "a4"), .init(propertyName: "a5")])
        for index in area.elements.indices { area.elements[index].kind = .rtree }
        thing.indexes = [two, area]
        var part = EntityDescription(name: "Part")
        part.properties = [
            .attribute(.init(name: "label", type: .string)),
            .relationship(.init(name: "whole", destination: "Thing", inverse: "parts")),
        ]
        var special = EntityDescription(name: "SpecialThing")
        special.superentityName = "Thing"
        special.properties = [.attribute(.init(name: "extra", type: .transformable))]
        model.entities = [thing, part, special]
        model.configurations = [.init(name: "Main", entityNames: ["Part", "Thing"])]
        var named = FetchRequestTemplate(name: "named", entityName: "Thing")
        named.predicateFormat = "text LIKE[cd] $TEXT OR ANY parts.label IN {\"a\", \"b\"}"
        named.fetchLimit = 5
        named.fetchBatchSize = 20
        named.sortOrderings = [SortOrdering("text")]
        named.relationshipKeyPathsForPrefetching = ["parts.whole", "parts"]
        model.fetchRequestTemplates = [named]
        model.versionIdentifiers = ["7", "b"]
        return model
    }

    /// The predicates whose archives say the same in other words.
    private func rewritten(_ model: ManagedObjectModel) throws -> ManagedObjectModel {
        func format(_ text: String) throws -> String {
            try QueryPredicate(format: text).description
        }
        var model = model
        for (index, entity) in model.entities.enumerated() {
            model.entities[index].properties = try entity.properties.map { property in
                switch property {
                case .attribute(var attribute):
                    attribute.validationPredicates = try attribute.validationPredicates.map {
                        .init(
                            try format(
                                $0.format.replacing(
                                    "SELF BETWEEN {1, 8}", with: "(SELF >= 1 AND SELF <= 8)")),
                            message: $0.message ?? "is not valid")
                    }
                    return .attribute(attribute)
                case .fetched(var fetched):
                    fetched.fetchRequest.predicateFormat = try fetched.fetchRequest.predicateFormat
                        .map {
                            try format($0.replacing("BEGINSWITH \"x\"", with: "LIKE \"x*\""))
                        }
                    return .fetched(fetched)
                case .relationship: return property
                }
            }
            model.entities[index].indexes = try entity.indexes.map {
                var index = $0
                index.partialIndexPredicate = try index.partialIndexPredicate.map(format)
                return index
            }
        }
        model.fetchRequestTemplates = try model.fetchRequestTemplates.map {
            var template = $0
            template.predicateFormat = try template.predicateFormat.map(format)
            return template
        }
        return model
    }

    @Test func everythingIsReadAsItWasCompiled() throws {
        let model = try Self.everything()
        let (data, omissions) = try model.compiledModel()
        #expect(omissions == [])
        let (read, remarks) = try CompiledModelDecoder.read(data, name: "test")
        #expect(remarks == [])
        #expect(read.asCompiled.differences(from: try rewritten(model).asCompiled) == [])
        #expect(read.entityVersionHashes() == model.entityVersionHashes())
        let cache = try #require(model.modelCache)
        let cached = try ManagedObjectModel(modelCache: cache, name: "cache")
        #expect(cached.asCompiled == read.asCompiled)
    }

    @Test func whatCannotBeCompiledIsSaid() throws {
        var model = try Self.everything()
        var words = FetchIndexDescription(name: "words", elements: [.init(propertyName: "text")])
        words.elements[0].kind = .fullText
        model.entities[0].indexes.append(words)
        model.fetchRequestTemplates[0].predicateFormat = "text MATCHES TEXT \"word\""
        let (data, omissions) = try model.compiledModel()
        #expect(omissions.count == 2)
        #expect(omissions.contains { $0.contains("“words”") })
        #expect(omissions.contains { $0.contains("“named”") && $0.contains("MATCHES TEXT") })
        let read = try ManagedObjectModel(compiledModel: data, name: "test")
        #expect(read.fetchRequestTemplates == [])
        #expect(read.entity(named: "Thing")?.indexes.map(\.name) == ["two", "area"])
    }

    @Test func partsNotCompiledAreNamed() throws {
        var model = ManagedObjectModel(entities: [EntityDescription(name: "Thing")])
        #expect(model.partsNotCompiled == [])
        model.composites = [CompositeDescription(name: "Place", elements: [])]
        model.entities[0].coreSpotlightDisplayNameExpression = "name"
        model.entities[0].isSyncable = false
        model.usedWithCloudKit = true
        let sentences = model.partsNotCompiled
        #expect(sentences.count == 4)
        for (sentence, part) in zip(
            sentences, ["“Place”", "names: “Thing”", "synchronization: “Thing”", "CloudKit"])
        {
            #expect(sentence.contains(part))
        }
    }

    /// Of a composite's default value, which Core Data keeps as a dictionary, become those of its elements.
    @Test func compositeDefaultIsReadIntoTheElements() throws {
        typealias Entry = ArchiveValue.Entry
        func read(
            _ defaultValue: (inout KeyedArchiveWriter) -> ArchiveValue
        ) throws -> (model: ManagedObjectModel, remarks: [String]) {
            var writer = KeyedArchiveWriter()
            func attribute(
                _ name: String, _ type: AttributeType, _ fields: [Entry]
            ) -> ArchiveValue {
                writer.add(
                    ["NSAttributeDescription", "NSPropertyDescription", "NSObject"],
                    [
                        Entry("NSPropertyName", writer.add(name)),
                        Entry("NSIsOptional", .boolean(true)),
                        Entry("NSAttributeType", .integer(Int64(type.rawValue))),
                    ] + fields)
            }
            let city = attribute("city", .string, [])
            let number = attribute("number", .integer16, [Entry("NSDefaultValue", .integer(1))])
            let home = attribute(
                "home", .composite,
                [
                    Entry("NSCompositeElements", writer.add(array: [city, number])),
                    Entry("NSDefaultValue", defaultValue(&writer)),
                ])
            let entity = writer.add(
                ["NSEntityDescription", "NSObject"],
                [
                    Entry("NSEntityName", writer.add("Thing")),
                    Entry(
                        "NSProperties",
                        writer.add(dictionary: [(key: writer.add("home"), value: home)])),
                ])
            let model = writer.add(
                ["NSManagedObjectModel", "NSObject"],
                [
                    Entry(
                        "NSEntities",
                        writer.add(dictionary: [(key: writer.add("Thing"), value: entity)]))
                ])
            return try CompiledModelDecoder.read(
                writer.data(top: [Entry("root", model)]), name: "test")
        }
        let (model, remarks) = try read { writer in
            writer.add(dictionary: [(key: writer.add("city"), value: writer.add("Bath"))])
        }
        #expect(remarks == [])
        let elements = try #require(model.composites.first).elements
        #expect(elements.map(\.name) == ["city", "number"])
        #expect(elements.map(\.defaultValue) == [.string("Bath"), .integer(1)])
        guard case .attribute(let home)? = model.entities[0].property(named: "home") else {
            Issue.record("“home” is not an attribute")
            return
        }
        #expect(home.defaultValue == .null)
        try model.validate()
        #expect(try read { $0.add(scalar: .null) }.remarks == [])
        let odd = try read { $0.add("Bath") }
        #expect(odd.remarks.count == 1)
        #expect(odd.remarks.allSatisfy { !$0.contains("damaged") })
    }

    @Test func ordersThatNoSortDescriptorHasAreSaid() throws {
        var model = try Self.everything()
        model.fetchRequestTemplates[0].sortOrderings = [
            SortOrdering("length(text)"), SortOrdering("text", options: .diacriticInsensitive),
        ]
        let (data, omissions) = try model.compiledModel()
        #expect(omissions.count == 2)
        #expect(omissions.contains { $0.contains("“length(text)”") })
        let read = try ManagedObjectModel(compiledModel: data, name: "test")
        #expect(read.fetchRequestTemplates.map(\.sortOrderings) == [[SortOrdering("text")]])
    }

    @Test func versionsAreCompiledIntoAFolder() throws {
        let folder = try TemporaryFolder()
        let source = folder.path("M.xcdatamodeld")
        try FileManager.default.createDirectory(atPath: source, withIntermediateDirectories: true)
        try Self.everything().write(to: source + "/M.xcdatamodel")
        var second = try Self.everything()
        second.entities[1].properties.append(.attribute(.init(name: "more", type: .string)))
        try second.write(to: source + "/M 2.xcdatamodel")
        let target = folder.path("M.momd")
        let remarks = try ModelVersions(contentsOf: source).compile(to: target)
        #expect(
            try remarks
                == ["M", "M 2"].flatMap { name in
                    try Self.everything().partsNotCompiled.map { "\(name): \($0)" }
                })
        let versions = try ModelVersions(contentsOf: target)
        #expect(versions.names == ["M", "M 2"])
        #expect(versions.currentName == "M")
        #expect(
            try versions.model(named: "M 2").entityVersionHashes() == second.entityVersionHashes())
        #expect(try ManagedObjectModel(contentsOf: target + "/M 2.mom").entities.count == 3)
        let error = #expect(throws: QuireError.self) {
            try ModelVersions(contentsOf: source).compile(to: target)
        }
        #expect(error?.code == .alreadyExists)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 2)
        // A version by itself can be read all the same.
        try Data("no list".utf8).write(to: URL(fileURLWithPath: target + "/VersionInfo.plist"))
        let alone = try ManagedObjectModel.reading(contentsOf: target + "/M 2.mom")
        #expect(alone.remarks.contains { $0.contains("VersionInfo.plist") })
    }
}

extension ManagedObjectModel {
    /// Without the names that archives give to what is anonymous in them.
    fileprivate var withoutNames: ManagedObjectModel {
        var model = self
        for entity in model.entities.indices {
            model.entities[entity].properties = model.entities[entity].properties.map { property in
                switch property {
                case .attribute(var attribute):
                    attribute.compositeName = attribute.compositeName.map { _ in "" }
                    attribute.valueTransformerName =
                        attribute.valueTransformerName?.isEmpty == true
                        ? nil : attribute.valueTransformerName
                    return .attribute(attribute)
                case .fetched(var fetched):
                    fetched.fetchRequest.name = ""
                    return .fetched(fetched)
                case .relationship: return property
                }
            }
            if model.entities[entity].managedObjectClassName?.isEmpty == true {
                model.entities[entity].managedObjectClassName = nil
            }
        }
        return model
    }
}
