import ArgumentParser
import Foundation
import Quire

/// `quire merge-driver BASE OURS THEIRS`, which git calls to merge models; see `GIT.md`.
struct MergeDriverCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge-driver",
        abstract: "Merges two versions of a model for git, and replaces OURS with the result.",
        discussion: """
            Each file is the contents file of a .xcdatamodel folder. If both sides have changed the \
            same part differently, the conflicting parts are listed, nothing is written, and the \
            exit code is 1.

            EXAMPLES:
              git config merge.quire-model.driver 'quire merge-driver %O %A %B'
            """,
        shouldDisplay: false)

    @Argument(help: ArgumentHelp("The common ancestor.", valueName: "BASE"))
    var base: String

    @Argument(help: ArgumentHelp("The current version, which is replaced.", valueName: "OURS"))
    var ours: String

    @Argument(help: ArgumentHelp("The other version.", valueName: "THEIRS"))
    var theirs: String

    func run() throws {
        var merge = ModelMerge()
        let merged = try merge.merged(Self.model(base), Self.model(ours), Self.model(theirs))
        guard merge.conflicts.isEmpty else {
            throw Failure(
                sentence: "Both sides have changed \(merge.conflicts.joined(separator: ", ")).",
                status: .failed)
        }
        try merged.validate()
        let sibling = try TemporarySibling.makeFile(beside: FileSystem.absolute(ours))
        defer { sibling.remove() }
        try sibling.building {
            try merged.modelXML().withUnsafeBytes { try sibling.file.write($0) }
            try sibling.publishFile(replacing: true)
        }
    }

    /// The model in a file; that of an empty file, which git gives for the ancestor of a new one, is empty.
    private static func model(_ path: String) throws -> ManagedObjectModel {
        let data = try InputFile.read(path)
        if data.isEmpty { return ManagedObjectModel() }
        let model = try ManagedObjectModel(modelXML: data, name: path)
        guard let remark = model.remarks.first else { return model }
        // The merged model would lack what is not understood.
        throw QuireError(.unsupported, "“\(path)” cannot be merged: \(remark)", file: path)
    }
}

/// A merge of two models with a common ancestor: of each part the side that has changed it counts.
///
/// The parts are the properties and settings of entities, fetch requests, composites and configurations. Those of the first side
/// keep their order; those that only the second side has come last.
struct ModelMerge {
    /// The parts that both sides have changed differently.
    private(set) var conflicts: [String] = []

    /// The merged model. If there are conflicts, it has the parts of the first side there.
    mutating func merged(
        _ base: ManagedObjectModel, _ ours: ManagedObjectModel, _ theirs: ManagedObjectModel
    ) -> ManagedObjectModel {
        var model = ours
        model.entities = parts(base, ours, theirs, \.entities, named: \.name, "") {
            $0.entity($1, $2, $3)
        }
        model.fetchRequestTemplates = parts(
            base, ours, theirs, \.fetchRequestTemplates, named: \.name, "the fetch request ")
        model.composites = parts(base, ours, theirs, \.composites, named: \.name, "the composite ")
        model.configurations = parts(
            base, ours, theirs, \.configurations, named: \.name, "the configuration ")
        take(\.versionIdentifiers, "the version identifiers", base, theirs, &model)
        take(\.usedWithCloudKit, "the use with CloudKit", base, theirs, &model)
        take(\.usedWithSwiftData, "the use with SwiftData", base, theirs, &model)
        return model
    }

    private mutating func entity(
        _ base: EntityDescription, _ ours: EntityDescription, _ theirs: EntityDescription
    ) -> EntityDescription {
        var entity = ours
        let name = ours.name
        entity.properties = parts(base, ours, theirs, \.properties, named: \.name, "\(name).")
        take(\.managedObjectClassName, "the class of \(name)", base, theirs, &entity)
        take(\.isAbstract, "whether \(name) is abstract", base, theirs, &entity)
        take(\.superentityName, "the super-entity of \(name)", base, theirs, &entity)
        take(\.uniquenessConstraints, "the constraints of \(name)", base, theirs, &entity)
        take(\.indexes, "the indexes of \(name)", base, theirs, &entity)
        take(\.compoundIndexes, "the compound indexes of \(name)", base, theirs, &entity)
        take(\.renamingIdentifier, "the former name of \(name)", base, theirs, &entity)
        take(\.versionHashModifier, "the hash modifier of \(name)", base, theirs, &entity)
        take(\.userInfo, "the user info of \(name)", base, theirs, &entity)
        take(\.isSyncable, "whether \(name) is synchronized", base, theirs, &entity)
        take(\.codeGenerationType, "the generated code of \(name)", base, theirs, &entity)
        take(
            \.coreSpotlightDisplayNameExpression, "the display name of \(name)", base, theirs,
            &entity)
        return entity
    }

    /// Takes a value from the second side, if that has changed it.
    private mutating func take<Whole, Value: Equatable>(
        _ path: WritableKeyPath<Whole, Value>, _ noun: String, _ base: Whole, _ theirs: Whole,
        _ ours: inout Whole
    ) {
        let (former, value) = (base[keyPath: path], theirs[keyPath: path])
        if former == value || ours[keyPath: path] == value { return }
        if ours[keyPath: path] == former {
            ours[keyPath: path] = value
        } else {
            conflicts.append(noun)
        }
    }

    /// Merges parts by their names.
    ///
    /// - Parameter merging: Merges a part that both sides have changed; without it that is a conflict.
    private mutating func parts<Whole, Part: Equatable>(
        _ base: Whole, _ ours: Whole, _ theirs: Whole, _ path: KeyPath<Whole, [Part]>,
        named name: KeyPath<Part, String>, _ prefix: String,
        merging: ((inout Self, Part, Part, Part) -> Part)? = nil
    ) -> [Part] {
        let (base, ours, theirs) = (base[keyPath: path], ours[keyPath: path], theirs[keyPath: path])
        func part(_ key: String, of parts: [Part]) -> Part? {
            parts.first { $0[keyPath: name] == key }
        }
        let keys = (ours + theirs).map { $0[keyPath: name] }.withoutRepeats
        return keys.compactMap { key in
            let former = part(key, of: base)
            let (our, their) = (part(key, of: ours), part(key, of: theirs))
            if our == their || their == former { return our }
            if our == former { return their }
            if let merging, let former, let our, let their {
                return merging(&self, former, our, their)
            }
            conflicts.append(prefix + key)
            return our
        }
    }
}

/// `quire model merge A B … -o OUT`
struct ModelMergeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Merges models into one.",
        discussion: """
            The models may share identical entities. If entities with the same name differ, they \
            are listed, and nothing is written. OUT is an .xcdatamodel folder, which Xcode opens.

            EXAMPLES:
              quire model merge Library.xcdatamodeld Loans.momd -o All.xcdatamodel
            """)

    @Argument(help: ArgumentHelp("Models, documents or stores.", valueName: "PATH"))
    var paths: [String]

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("The new model; an existing one is replaced.", valueName: "OUT"))
    var output: String

    @OptionGroup var opening: OpeningOptions

    func validate() throws {
        if paths.count < 2 { throw ValidationError("Specify two or more models to merge.") }
        if !output.hasSuffix(".xcdatamodel") {
            throw ValidationError("OUT must end in .xcdatamodel.")
        }
    }

    @MainActor
    func run() async throws {
        var models: [ManagedObjectModel] = []
        for path in paths {
            let source = try await ModelSource.read(path, opening.unlock)
            for remark in source.remarks.withoutRepeats {
                Output.report("Warning: \(path): \(remark)")
            }
            models.append(source.model)
        }
        let merged = try ManagedObjectModel.merging(models)
        try merged.write(to: output)
        let entities = merged.entities.map(\.name)
        try opening.printResult(
            levels: 2,
            [
                "Merged \(Count.of(models.count, "model")) into \(output): "
                    + "\(Count.of(entities.count, "entity", "entities"))."
            ]
        ) { .object(["path": .string(output), "entities": .array(entities.map { .string($0) })]) }
    }
}
