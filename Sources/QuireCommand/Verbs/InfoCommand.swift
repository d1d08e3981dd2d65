import ArgumentParser
import Quire

/// `quire info PATH`, where PATH may also be an archive.
struct InfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: InfoVerb.name, abstract: InfoVerb.abstract, discussion: InfoVerb.discussion)

    @Argument(help: ArgumentHelp("A document, a store or an archive.", valueName: "PATH"))
    var path: String

    @OptionGroup var options: DocumentOptions
    @OptionGroup var unlock: UnlockOptions

    @MainActor
    func run() async throws {
        let output = Output(json: options.json)
        try unlock.unlock(path)
        let document =
            try DocumentPath.kind(of: path) == .archive
            ? DocumentSession.open(archive: path, unlocking: { try unlock.unlock($0, of: path) })
            : await DocumentSession.open(path, modelPath: options.model, access: .read)
        if let note = document.modelNote { Output.report(note) }
        do {
            try await InfoVerb().run(on: document).print(output)
            try output.flush()
        } catch {
            try? await document.close()
            throw error
        }
        try await document.close()
    }
}
