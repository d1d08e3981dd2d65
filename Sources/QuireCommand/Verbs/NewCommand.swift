import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire new PATH …`
struct NewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new",
        abstract: "Makes a document package.",
        discussion: """
            EXAMPLES:
              quire new Library.quire --template Library
              quire new Recipes.quire --model Recipes.xcdatamodeld
            """)

    @Argument(
        help: ArgumentHelp("The package to make; its name ends in .quire.", valueName: "PATH"))
    var path: String

    @Option(help: ArgumentHelp("A template's name, or its folder.", valueName: "T"))
    var template: String?

    @Option(help: ArgumentHelp("The model of an empty document.", valueName: "M.xcdatamodeld"))
    var model: String?

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        if (template == nil) == (model == nil) {
            throw ValidationError("Say either --template or --model.")
        }
    }

    @MainActor
    func run() async throws {
        let output = Output(json: json, tellsOfChange: true)
        let template = try template.map { try DocumentTemplate.named($0) }
        let document = ManagedDocument(path: path)
        if let template {
            try await document.create(from: template)
        } else {
            try await document.create(model: ManagedObjectModel(contentsOf: model ?? ""))
        }
        try await document.close()
        let made = try await DocumentSession.open(path, modelPath: nil, access: .read)
        let info = try DocumentInfo(of: made)
        try await made.close()
        if json {
            try info.print(output)
        } else {
            let objects = info.entities.reduce(0) { $0 + $1.count }
            let origin = template.map { "the template \($0.name)" } ?? "the model \(model ?? "")"
            try output.print(
                "Made \(path) from \(origin): "
                    + "\(Count.of(info.entities.count, "entity", "entities")), "
                    + "\(Count.of(objects, "object")).")
        }
        try output.flush()
    }
}
