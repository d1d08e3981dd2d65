import ArgumentParser
import Quire

/// `quire delete PATH ID…` and `quire delete PATH ENTITY --where F`
struct DeleteVerb: DocumentVerb {
    static let name = "delete"
    static let abstract = "Deletes objects, following the delete rules of the model."
    static let discussion = """
        Specify objects by their identifiers, or by an entity and a condition; TRUEPREDICATE selects every \
        object.

        EXAMPLES:
          quire delete Library.quire Book/p7 Book/p8
          quire delete Library.quire Loan --where 'returnedAt != NULL' --dry-run
        """
    static let access = DocumentSession.Access.write

    @Argument(help: ArgumentHelp("Identifiers, or an entity with --where.", valueName: "ID|ENTITY"))
    var subjects: [String]

    @OptionGroup var filter: FilterOption
    @OptionGroup var trial: DryRunOption

    func validate() throws {
        if filter.format != nil && subjects.count != 1 {
            throw ValidationError("With --where, specify one entity and no identifiers.")
        }
        if filter.format == nil, let entity = subjects.first(where: { !$0.contains("/") }) {
            throw ValidationError(
                "“\(entity)” is not an identifier; to delete objects of an entity, add --where "
                    + "(TRUEPREDICATE for all).")
        }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let context = trial.context(of: document)
        let objects: [ManagedObject]
        if let predicate = try filter.predicate {
            let entity = try document.layout.requireEntity(named: subjects[0])
            objects = Array(try context.fetch(FetchRequest(entity.name, predicate: predicate)))
        } else {
            objects = try document.objects(named: subjects, in: context)
        }
        let ids = objects.map(\.objectID)
        for object in objects { context.delete(object) }
        return try trial.reply(context, of: document)
            ?? Reply { try ChangeReply("Deleted") { ids }.print($0) }
    }
}
