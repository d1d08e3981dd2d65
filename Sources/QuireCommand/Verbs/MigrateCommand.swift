import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire migrate DOCUMENT --model M …`
struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Brings a document, or a bare store, to another version of its model.",
        discussion: """
            What the old objects become is inferred from the two models, or said by mapping models. The \
            document is migrated as a whole, or left as it was, whatever happens meanwhile.

            EXAMPLES:
              quire migrate Library.quire --model Library.xcdatamodeld --dry-run
              quire migrate Library.quire --model Library.xcdatamodeld
              quire migrate Moods.sqlite --model Moody.xcdatamodeld --version 'Moody 5'
            """)

    @Argument(help: ArgumentHelp("The package or store.", valueName: "PATH"))
    var path: String

    @Option(help: ArgumentHelp("The model to come to, with its versions.", valueName: "M"))
    var model: String

    @Option(
        help: ArgumentHelp("The version to come to, if it is not the current one.", valueName: "V"))
    var version: String?

    @Option(
        help: ArgumentHelp(
            "A mapping model between two of the versions; may be given several times.",
            valueName: "M.xcmappingmodel"))
    var mapping: [String] = []

    @Flag(help: "Say what would be done, and do nothing.")
    var dryRun = false

    @Flag(help: "Print JSON.")
    var json = false

    @MainActor
    func run() async throws {
        let output = Output(json: json)
        let kind = try DocumentPath.kind(of: path)
        if kind == .archive {
            throw QuireError(
                .unsupported,
                "“\(path)” is an archive; extract it first: quire extract \(path) DOCUMENT.quire",
                subject: .init(file: path))
        }
        let store =
            kind == .package ? DocumentPackageLayout(path: path).store : path
        let versions = try ModelVersions(contentsOf: model)
        let name = version ?? versions.currentName
        let destination = try versions.model(named: name)
        var options = StoreMigrationOptions()
        options.versions = try versions.models()
        options.mappings = try mapping.map { try CustomMapping(contentsOf: $0, among: versions) }
        let steps = try SQLiteStore.steps(at: store, to: destination, options)
        if !dryRun && !steps.isEmpty {
            if kind == .package {
                try DocumentPackage.open(at: path, model: destination, migrating: options).close()
            } else {
                try SQLiteStore.open(at: path, model: destination, migrating: options).close()
            }
        }
        try report(steps, name: name, output)
        try output.flush()
    }

    // MARK: - Reporting

    @MainActor
    private func report(
        _ steps: [MigrationPath.Step], name: String, _ output: Output
    ) throws {
        if json {
            try output.print(
                .object([
                    "path": .string(path), "version": .string(name), "dryRun": .boolean(dryRun),
                    "steps": .array(steps.map(Self.json)),
                ]), levels: 4)
            return
        }
        if steps.isEmpty {
            try output.print("\(path) has the model \(name) already.")
            return
        }
        let way = steps.map(\.name).joined(separator: ", then to ")
        try output.print("\(path) \(dryRun ? "would be" : "was") migrated to \(way).")
        if !dryRun { return }
        for step in steps {
            if steps.count > 1 { try output.print("To \(step.name):") }
            let lines = step.mapping.entityMappings.compactMap(Self.line)
            for line in lines { try output.print("  \(line)") }
            if lines.isEmpty { try output.print("  No entity changes what is stored of it.") }
        }
    }

    /// What a mapping does; `nil` if nothing.
    private static func line(_ mapping: EntityMapping) -> String? {
        let policy = mapping.entityMigrationPolicyName.map { ", by the policy \($0)" } ?? ""
        switch (mapping.sourceEntityName, mapping.destinationEntityName) {
        case (let old?, nil): return "\(old) is removed\(policy)"
        case (nil, let new?): return "\(new) is new\(policy)"
        case (let old?, let new?):
            if mapping.mappingType == .copy && old == new && policy.isEmpty { return nil }
            return (old == new ? "\(new) changes" : "\(old) becomes \(new)") + policy
        case (nil, nil): return nil
        }
    }

    private static func json(_ step: MigrationPath.Step) -> JSONValue {
        .object([
            "version": .string(step.name),
            "mapping": .string(step.isCustom ? "given" : "inferred"),
            "entities": .array(
                step.mapping.entityMappings.map { mapping in
                    .object([
                        "name": .string(mapping.name),
                        "type": .string("\(mapping.mappingType)"),
                        "source": mapping.sourceEntityName.map { .string($0) } ?? .null,
                        "destination": mapping.destinationEntityName.map { .string($0) } ?? .null,
                    ])
                }),
        ])
    }
}
