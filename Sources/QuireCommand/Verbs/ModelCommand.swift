import ArgumentParser

/// `quire model PATH …`, `quire model generate …`, `quire model templates`
struct ModelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: ModelVerb.name,
        abstract:
            "Prints, changes, checks, compares, compiles and merges models, and writes classes for them.",
        discussion: """
            If a document has the name of a subcommand, add the folder: ./generate.

            EXAMPLES:
              quire model Library.quire
              quire model Library.quire Book --json
              quire model check Library.xcdatamodeld
              quire model add Library.quire 'Book.notes: string'
              quire model edit Library.quire
              quire model diff Old.momd Library.xcdatamodeld
              quire model generate Library.xcdatamodeld Sources/Library
            """,
        subcommands: [
            OnDocument<ModelVerb>.self, ModelPrintCommand.self, ModelCheckCommand.self,
            ModelDiffCommand.self, ModelCompileCommand.self, ModelMergeCommand.self,
            ModelAddCommand.self, ModelRenameCommand.self, ModelRemoveCommand.self,
            ModelSetCommand.self, ModelEditCommand.self, ModelGenerateCommand.self,
            ModelTemplatesCommand.self,
        ],
        defaultSubcommand: OnDocument<ModelVerb>.self)
}
