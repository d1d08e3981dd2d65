import ArgumentParser
import Quire

/// `quire insert PATH ENTITY k=v…`
struct InsertVerb: DocumentVerb {
    static let name = "insert"
    static let abstract = "Adds an object."
    static let discussion = """
        The type of the attribute determines how a value is read: dates in ISO 8601, bytes in base64. A \
        relationship accepts identifiers, Entity/pN,Entity/pM, or the value of an attribute of the related object, \
        author.name=Jane; that object must exist, unless --make inserts it. For a to-many relationship, repeat \
        k.name=… to specify several objects. k= leaves the key without a value; k=@FILE reads the value from a \
        file; k=@@x is the text “@x”.

        EXAMPLES:
          quire insert Library.quire Book title=Emma year=1815 author=Author/p1
          quire insert Library.quire Book title=Persuasion author.name='Jane Austen' --make
          quire insert Notes.quire Attachment name=cover data=@cover.png post=Post/p2
        """
    static let access = DocumentSession.Access.write

    @Argument(help: ArgumentHelp("The entity.", valueName: "ENTITY"))
    var entity: String

    @Argument(help: ArgumentHelp("Values.", valueName: "k=v"))
    var assignments: [String] = []

    @OptionGroup var making: MakeOption
    @OptionGroup var trial: DryRunOption

    func validate() throws {
        try Assignment.checkSpaces(assignments)
        _ = try Assignment.all(assignments)
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let assignments = try Assignment.all(assignments)
        let entity = try document.layout.requireConcreteEntity(named: entity)
        let context = trial.context(of: document)
        let changes = AssignedChanges(
            assignments, of: document, in: context, insertsRelated: making.isOn)
        let object = try changes.insertObject(of: entity)
        if let reply = try trial.reply(context, of: document) { return reply }
        // At once, so that later lines of a session can name it.
        try context.obtainPermanentIDs(for: [object] + changes.inserted)
        return Reply {
            try ChangeReply("Inserted", inserted: changes.inserted) { [object.objectID] }.print($0)
        }
    }
}

extension ResolvedModel {
    /// The entity of a name, of which there can be objects.
    ///
    /// - Throws: `QuireError` with code `unknownEntity`, or `invalidValue` if it is abstract.
    func requireConcreteEntity(named name: String) throws -> ResolvedEntity {
        let entity = try requireEntity(named: name)
        guard !entity.isAbstract else {
            let names = entity.subtree.map { self.entity(number: $0) }.filter { !$0.isAbstract }
                .map(\.name).joined(separator: ", ")
            throw QuireError(
                .invalidValue,
                "\(name) is abstract, so it has no objects of its own; specify one of its sub-entities: \(names).",
                entity: name)
        }
        return entity
    }
}
