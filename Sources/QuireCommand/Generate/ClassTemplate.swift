import Foundation
import Quire

/// The templates that classes are written with: built in, a folder of files, or one file.
///
/// | template | is rendered |
/// |---|---|
/// | `Entity.stencil` | for every entity |
/// | `Header.stencil` | at the top of every file, if there is one |
/// | `Model.stencil` | once for the model, if there is one |
/// | `Composites.stencil` | once for the composites that are structures, if there is one |
///
/// All others are for these to include or extend.
struct ClassTemplate {
    static let fileExtension = ".stencil"
    static let entityName = "Entity" + fileExtension
    static let headerName = "Header" + fileExtension
    static let modelName = "Model" + fileExtension
    static let compositesName = "Composites" + fileExtension

    /// Its name in error messages: its name or path.
    let title: String
    /// Its purpose, in a line; for those that are built in.
    let summary: String
    /// The texts by the names of their files.
    let sources: [String: String]
    /// The template for an entity: usually ``entityName``.
    let entityTemplate: String
    /// The folder in which the files are; `nil` if they are built in.
    let folder: String?

    /// Whether the code uses the macros of QuireMacros.
    var usesMacros: Bool { sources.values.contains { $0.contains("macroArguments") } }

    /// A template that is part of the program.
    init(builtIn name: String, summary: String, sources: [String: String]) {
        title = name
        self.summary = summary
        self.sources = sources
        entityTemplate = Self.entityName
        folder = nil
    }

    /// Finds a template: one that is built in by its name, else a folder or a file.
    ///
    /// - Throws: `QuireError` with code `notFound`, or `invalidFormat` if it is no template.
    init(named name: String) throws {
        if let builtIn = Self.builtIn.first(where: { $0.title == name }) {
            self = builtIn
            return
        }
        guard let information = try FileSystem.information(at: name) else {
            let advice = CloseNames.advice(
                for: name, among: Self.builtIn.map(\.title), "built-in templates")
            throw QuireError(
                .notFound,
                "“\(name)” is neither a built-in template nor a folder or file; \(advice)",
                file: name)
        }
        let isFolder = information.kind == .folder
        let folder = isFolder ? name : FileSystem.folder(of: name)
        var sources: [String: String] = [:]
        for file in try FileSystem.names(in: folder) where file.hasSuffix(Self.fileExtension) {
            if !isFolder && file == FileSystem.name(of: name) { continue }
            sources[file] = try Self.text(of: FileSystem.path(folder, file))
        }
        let entityTemplate = isFolder ? Self.entityName : FileSystem.name(of: name)
        if isFolder {
            if sources[entityTemplate] == nil {
                throw QuireError(
                    .invalidFormat,
                    "“\(name)” is not a template for classes: it does not contain \(Self.entityName).",
                    file: name)
            }
        } else {
            // Only what it includes by name is taken from the files beside it.
            sources[Self.headerName] = nil
            sources[Self.modelName] = nil
            sources[Self.compositesName] = nil
            sources[entityTemplate] = try Self.text(of: name)
        }
        title = name
        summary = ""
        self.sources = sources
        self.entityTemplate = entityTemplate
        self.folder = folder
    }

    private static func text(of path: String) throws -> String {
        guard let text = String(data: try FileSystem.contents(of: path), encoding: .utf8) else {
            throw QuireError(
                .invalidFormat, "The template “\(path)” is not UTF-8 text.", file: path)
        }
        return text
    }
}

// MARK: - Built in

extension ClassTemplate {
    /// The templates that are part of the program; the first is taken if none is named.
    static let builtIn = [macros, accessors]

    /// Plain subclasses, for programs that do without macros.
    private static let accessors = ClassTemplate(
        builtIn: "accessors",
        summary: "Subclasses whose properties read and write by key; they require only Quire.",
        sources: [
            headerName: """
            {% if needsFoundation %}
            {{ access }}import Foundation
            {% endif %}
            {{ access }}import Quire
            """,
            modelName: bindingSource,
            entityName: #"""
            {% for note in entity.notes %}
            // {{ note }}
            {% endfor %}
            {{ access }}{{ entity.final }}class {{ entity.class }}: {{ entity.superclass }} {
            {% for property in entity.properties %}
            {% for note in property.notes %}
                // {{ note }}
            {% endfor %}
            {% if property.kind == "attribute" %}
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { {{ property.get }} }
            {% if not property.isDerived %}
                    set { {{ property.set }} }
            {% endif %}
                }
            {% elif property.kind == "relationship" and property.isToMany %}
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { self[{{ property.nameLiteral }}, as: {{ property.type }}.self] }
                    set { self[{{ property.nameLiteral }}] = newValue }
                }
            {% elif property.kind == "relationship" %}
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { self[{{ property.nameLiteral }}, as: {{ property.destinationClass }}.self] }
                    set { self[{{ property.nameLiteral }}] = newValue }
                }
            {% elif property.kind == "fetched" %}
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get throws { {{ property.get }} }
                }
            {% else %}
                // “{{ property.name }}” is omitted: {{ property.reason }}.
            {% endif %}
            {% if not forloop.last %}

            {% endif %}
            {% endfor %}
            }
            """#,
        ])

    /// Binds the classes to the entities of a model that comes from elsewhere.
    private static let bindingSource = #"""
        private let {{ model.classesName }}: [String: any EntityClass.Type] = [
        {% for entity in entities %}
            {{ entity.nameLiteral }}: {{ entity.class }}.self,
        {% empty %}
            :
        {% endfor %}
        ]

        extension ManagedObjectModel {
            /// Makes the objects of the model's entities instances of their classes. Call it before opening a
            /// document or a store with the model.
            {{ access }}mutating func bind{{ model.swiftName }}Classes() {
                for index in entities.indices {
                    guard let objectClass = {{ model.classesName }}[entities[index].name] else { continue }
                    entities[index].objectClass = objectClass
                }
            }
        }
        """#
}

// MARK: - Macros

extension ClassTemplate {
    /// Classes of QuireMacros.
    static let macros = ClassTemplate(
        builtIn: "macros",
        summary: "Classes of QuireMacros, which read and write by slot and can declare the model.",
        sources: [
            headerName: """
            {% if needsFoundation %}
            {{ access }}import Foundation
            {% endif %}
            {{ access }}import Quire
            import QuireMacros
            """,
            modelName: #"""
            /// The classes of the model's entities: for `SQLiteStoreOptions.objectClasses`,
            /// `ManagedObjectModel.bind(classes:)` and `ManagedObjectModel(classes:)`.
            {{ access }}let {{ model.classesName }}: [any EntityClass.Type] = [
            {% for entity in entities %}
                {{ entity.class }}.self,
            {% endfor %}
            ]
            """#,
            compositesName: #"""
            {% for composite in composites %}
            @Composite{{ composite.macroArguments }} {{ access }}struct {{ composite.structure }} {
            {% for element in composite.elements %}
                {{ access }}var {{ element.swiftName }}: {{ element.type }}
            {% endfor %}
            }
            {% if not forloop.last %}

            {% endif %}
            {% endfor %}
            """#,
            entityName: #"""
            {% for note in entity.notes %}
            // {{ note }}
            {% endfor %}
            {% for note in entity.undeclared %}
            // {{ note }}
            {% endfor %}
            @Entity{{ entity.macroArguments }} {{ access }}{{ entity.final }}class {{ entity.class }}: {{ entity.superclass }} {
            {% for property in entity.properties %}
            {% for note in property.notes %}
                // {{ note }}
            {% endfor %}
            {% if property.kind == "fetched" and not property.undeclared %}
                @FetchedProperty{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% elif property.kind == "fetched" %}
                // Read by key, because {{ property.undeclared }}; it exists if the model comes from elsewhere.
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get throws { {{ property.get }} }
                }
            {% elif property.undeclared %}
                // Read by key, because {{ property.undeclared }}; it exists if the model comes from elsewhere.
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { {{ property.get }} }
            {% if not property.isDerived %}
                    set { {{ property.set }} }
            {% endif %}
                }
            {% elif property.structure %}
                @Attribute{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.structure }}
            {% elif property.kind == "attribute" %}
                @Attribute{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% elif property.kind == "relationship" %}
                @Relationship{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% else %}
                // “{{ property.name }}” is omitted: {{ property.reason }}.
            {% endif %}
            {% endfor %}
            }
            """#,
        ])
}
