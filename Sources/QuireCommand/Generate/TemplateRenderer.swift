import Foundation
import Quire
import Stencil

/// Renders the files of a template. Each is parsed once.
final class TemplateRenderer {
    private let template: ClassTemplate
    private let loader: TemplateLoader
    private let tags: TemplateTags
    private let environment: Environment
    private var parsed: [String: Template] = [:]

    init(_ template: ClassTemplate) {
        self.template = template
        loader = TemplateLoader(sources: template.sources)
        tags = TemplateTags(filters: Self.filters())
        environment = Environment(
            loader: loader, extensions: tags.extensions, trimBehaviour: .smart)
        tags.boundFilters(of: environment)
    }

    /// What a file of the template makes of a context.
    ///
    /// - Returns: The text without white space around it; empty if there is no such file.
    /// - Throws: `QuireError` with code `invalidFormat`, naming file and line.
    func text(of name: String, with context: [String: Any]) throws -> String {
        guard let source = template.sources[name] else { return "" }
        loader.begin()
        tags.begin()
        do {
            let file =
                parsed[name]
                ?? Template(templateString: source, environment: environment, name: name)
            try TemplateLoader.checkTags(of: file)
            parsed[name] = file
            let text = try file.render(context)
            return text.trimmingCharacters(in: .whitespacesAndNewlines)
        } catch let error as TemplateSyntaxError {
            // The innermost first: the tags that include it are only how one got there.
            let place = error.stackTrace.first ?? error.token
            throw failure(
                error.reason, in: place?.sourceMap.filename ?? name,
                line: place.map { Int($0.sourceMap.location.lineNumber) }, underlying: error)
        } catch let error as TemplateDoesNotExist {
            throw failure("\(error)", in: name, line: nil, underlying: error)
        }
    }

    private func failure(
        _ reason: String, in name: String, line: Int?, underlying: any Error
    ) -> QuireError {
        let path =
            switch template.folder {
            case nil: "\(template.title)/\(name)"
            case "."?: name
            case let folder?: FileSystem.path(folder, name)
            }
        // What Stencil says of a file that is missing names its loader with all that it holds.
        let reason = reason.replacing(#/ in loader .*/#.dotMatchesNewlines(), with: "")
        let sentence = ".!?".contains(reason.last ?? " ") ? reason : reason + "."
        return QuireError(
            .invalidFormat,
            "The template “\(path)” cannot be used\(line.map { ", line \($0)" } ?? ""): \(sentence)",
            subject: .init(file: path, position: line), underlying: underlying)
    }

    /// What templates can do beside what Stencil brings.
    private static func filters() -> Extension {
        let filters = Extension()
        func add(_ name: String, _ change: @escaping (String) -> String) {
            filters.registerFilter(name) { (value: Any?) in
                (value as? String).map(change) ?? value
            }
        }
        // As a key, which Stencil has, it is refused.
        filters.registerFilter("last") { (value: Any?) -> Any? in
            if let text = value as? String { return text.last.map(String.init) }
            return (value as? [Any])?.last
        }
        add("literal", SwiftLiteral.text)
        add("comment", SwiftLiteral.comment)
        add("upperFirst", SwiftNames.upperFirst)
        add("lowerFirst", SwiftNames.lowerFirst)
        return filters
    }
}
