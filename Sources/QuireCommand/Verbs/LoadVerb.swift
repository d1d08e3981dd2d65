import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire load PATH FILE`
struct LoadVerb: DocumentVerb {
    static let name = "load"
    static let abstract = "Adds the objects of a dump."
    static let discussion = """
        Adds all objects in the output of dump, or none. The identifiers in it only link its objects to each other: the \
        new objects get their own. A reference to an object that is not in the file is an error. The whole dump is read \
        into memory; import reads files of any size.

        EXAMPLES:
          quire dump Library.quire > library.json
          quire load Copy.quire library.json
          quire dump Library.quire | quire load Copy.quire -
        """
    static let access = DocumentSession.Access.write

    @Argument(
        help: ArgumentHelp("The output of dump, or - for standard input.", valueName: "FILE"))
    var file: String

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        if file == "-" { try document.requireStandardInput() }
        let data =
            try file == "-" ? FileHandle.standardInput.readToEnd() ?? Data() : InputFile.read(file)
        let ids = try document.changingTogether { context in
            let name = file == "-" ? "standard input" : file
            let objects = try DumpReader(file: name, context: context).insert(data)
            try context.obtainPermanentIDs(for: objects)
            return objects.map(\.objectID)
        }
        return Reply { try ChangeReply("Inserted") { ids }.print($0) }
    }
}
