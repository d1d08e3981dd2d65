import Quire

/// Writes the code of classes: the plan of a model's classes, through a template.
struct ClassGenerator {
    let plan: ClassPlan
    let template: ClassTemplate
    let isPublic: Bool
    /// What the first line names as the origin.
    let origin: String

    /// A file of code.
    struct File {
        var name: String
        var text: String
        /// The classes in it.
        var classes: [ClassPlan.Class]
    }

    /// The files: one for every class and one for the model, or all in one.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if the template does not work.
    func files(inOne name: String?) throws -> [File] {
        let context = TemplateContext(plan: plan, isPublic: isPublic)
        let renderer = TemplateRenderer(template)
        var parts = try plan.classes.map { one in
            File(
                name: one.name + ".swift",
                text: try renderer.text(of: template.entityTemplate, with: context.file(of: one)),
                classes: [one])
        }
        // What is said of the whole model cannot be said by some of its classes.
        if plan.isComplete, template.sources[ClassTemplate.modelName] != nil {
            // No class has a plus sign in its name.
            parts.append(
                File(
                    name: SwiftNames.identifier(plan.modelName) + "+Classes.swift",
                    text: try renderer.text(
                        of: ClassTemplate.modelName, with: context.file(of: plan.classes)),
                    classes: []))
        }
        if let name {
            let text = parts.map(\.text).joined(separator: "\n\n")
            parts = [File(name: name, text: text, classes: plan.classes)]
        }
        return try parts.map { part in
            let header = try renderer.text(
                of: ClassTemplate.headerName, with: context.file(of: part.classes))
            let rest =
                [header, part.text].filter { !$0.isEmpty }.joined(separator: "\n\n") + "\n"
            var file = part
            file.text = GeneratedFiles.line(origin: origin, rest: rest) + "\n\n" + rest
            return file
        }
    }
}
