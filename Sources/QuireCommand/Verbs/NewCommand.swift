import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire new PATH …`
struct NewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new",
        abstract: "Creates a document package.",
        discussion: """
            EXAMPLES:
              quire new Library.quire --template Library
              quire new Recipes.quire --model Recipes.xcdatamodeld
              quire new Diary.quire --template Notes --class complete --recovery-key
            """)

    @Argument(
        help: ArgumentHelp("The package to make; its name ends in .quire.", valueName: "PATH"))
    var path: String

    @Option(help: ArgumentHelp("A template's name, or its folder.", valueName: "T"))
    var template: String?

    @Option(help: ArgumentHelp("The model of an empty document.", valueName: "M.xcdatamodeld"))
    var model: String?

    @Option(
        name: .customLong("class"),
        help: ArgumentHelp("Protect it from the start, with this class.", valueName: "CLASS"))
    var protection = FileProtection.none

    @OptionGroup(title: HelpText.keys) var keys: NewKeyOptions

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        if (template == nil) == (model == nil) {
            throw ValidationError("Specify --template or --model.")
        }
        if protection == .none, keys.isGiven {
            throw ValidationError("Specify the class of protection with --class.")
        }
    }

    @MainActor
    func run() async throws {
        let template = try template.map { try DocumentTemplate.named($0) }
        let document = ManagedDocument(path: path)
        let words = protection == .none ? nil : try protect(document)
        if let template {
            try await document.create(from: template)
        } else {
            try await document.create(model: ModelSource.model(at: model ?? ""))
        }
        if let domain = document.protectionDomain { UnlockOptions.hold(domain) }
        try await document.close()
        let made = try await DocumentSession.open(path, modelPath: nil, access: .read)
        let info = try await DocumentInfo(of: made)
        try await made.close()
        // A key that could not be printed is not passed over.
        let objects = info.entities.reduce(0) { $0 + $1.count }
        let origin = template.map { "the template \($0.name)" } ?? "the model \(model ?? "")"
        try Output.printResult(
            json: json, reportsChanges: words == nil, levels: 2,
            [
                "Made \(path) from \(origin): "
                    + "\(Count.of(info.entities.count, "entity", "entities")), "
                    + "\(Count.of(objects, "object"))."
            ]
        ) {
            var members = info.members
            if let words { members["recoveryKey"] = .string(words) }
            return .object(members)
        }
    }

    /// Protects a new document.
    ///
    /// - Returns: The words of a new recovery key. They have been printed, unless that is to be JSON.
    @MainActor
    private func protect(_ document: ManagedDocument) throws -> String? {
        if FileSystem.exists(path) {
            // No key is made if the document exists already.
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        document.protectionDomain = try keys.unlock.person()
        let (slots, words) = try keys.slots()
        document.fileProtection = protection
        document.persistentStoreOptions.protectionSlots = slots
        if let words, !json { try ProtectionListing.printWords(words) }
        return words
    }
}
