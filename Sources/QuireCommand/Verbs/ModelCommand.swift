import ArgumentParser

/// `quire model PATH …`, `quire model generate …`, `quire model templates`
struct ModelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: ModelVerb.name,
        abstract: "Prints the model, or writes classes for it.",
        discussion: """
            A document that is called like one of the subcommands is named with its folder, ./generate.

            EXAMPLES:
              quire model Library.quire
              quire model Library.quire Book --json
              quire model generate Library.xcdatamodeld Sources/Library
            """,
        subcommands: [
            OnDocument<ModelVerb>.self, ModelGenerateCommand.self, ModelTemplatesCommand.self,
        ],
        defaultSubcommand: OnDocument<ModelVerb>.self)
}
