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
            modelName: bindingSource,
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
            {% if property.undeclared %}
                // Read by key, because {{ property.undeclared }}: it is there if the model comes from elsewhere.
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { {{ property.get }} }
            {% if not property.isDerived %}
                    set { {{ property.set }} }
            {% endif %}
                }
            {% elif property.kind == "attribute" %}
                @Attribute{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% elif property.kind == "relationship" %}
                @Relationship{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% else %}
                // “{{ property.name }}” is left out: {{ property.reason }}.
            {% endif %}
            {% endfor %}
            }
            """#,
        ])

    /// Binds the classes to the entities of a model that comes from elsewhere.
    static let bindingSource = #"""
        extension ManagedObjectModel {
            /// Makes the objects of its entities instances of these classes. To be called before a document or a store is
            /// opened with the model.
            {{ access }}mutating func bind{{ model.swiftName }}Classes() {
                for index in entities.indices {
                    switch entities[index].name {
        {% for entity in entities %}
                    case {{ entity.nameLiteral }}: entities[index].objectClass = {{ entity.class }}.self
        {% endfor %}
                    default: break
                    }
                }
            }
        }
        """#
}
