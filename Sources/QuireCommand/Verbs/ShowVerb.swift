import ArgumentParser
import Quire

/// `quire show PATH ID…`
struct ShowVerb: DocumentVerb {
    static let name = "show"
    static let abstract =
        "Shows objects with all their properties, and the objects that refer to them."
    static let discussion = """
        Texts are printed in full, binary values as their size, and related objects with a text that \
        identifies them: their name or title, or else their first text. “Referred to by” lists the objects \
        that have the object in a relationship, including relationships without an inverse. At most 20 \
        objects of a relationship are listed. With --json, binary values and the object's relationships are \
        printed in full.

        EXAMPLES:
          quire show Library.quire Book/p7
          quire show Library.quire Author/p1 Author/p2 --json
        """
    static let access = DocumentSession.Access.read

    @Argument(help: ArgumentHelp("Objects, by their identifiers or URIs.", valueName: "ID"))
    var ids: [String]

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let objects = try document.objects(named: ids).map { object in
            ObjectDetails(object: object, document: document)
        }
        return Reply { output in
            if output.json {
                return try output.printList { element in
                    for object in objects { try element(object.json()) }
                }
            }
            for (index, object) in objects.enumerated() {
                if index > 0 { try output.print("") }
                try object.print(output)
            }
        }
    }
}
