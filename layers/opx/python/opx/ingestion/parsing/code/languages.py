"""Which languages are read, and what their grammars call a class and a function. Data only: nothing heavy is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """`name` is what code blocks are marked with; `grammar` the package that has the grammar, "" for none.

    Of the types of the grammar's nodes, `containers` have members that get sections of their own (a class), `leaves`
    are sections (a function), and `wrappers` stand around either (its decorators). `transparent` ones are seen through.
    """

    name: str
    grammar: str = ""
    containers: frozenset[str] = frozenset()
    leaves: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()
    transparent: frozenset[str] = frozenset()
    function: str = "language"


def _types(names: str) -> frozenset[str]:
    return frozenset(names.split())


_PREPROCESSOR = "preproc_if preproc_ifdef preproc_else preproc_elif linkage_specification declaration_list"
_SCRIPT_LEAVES = "function_declaration generator_function_declaration method_definition"
_SCRIPT_WRAPPERS = "export_statement"
_TYPED_CONTAINERS = "class_declaration abstract_class_declaration internal_module module class"
_TYPED_LEAVES = f"{_SCRIPT_LEAVES} interface_declaration type_alias_declaration enum_declaration function_signature"
_TYPED_WRAPPERS = f"{_SCRIPT_WRAPPERS} ambient_declaration expression_statement"
_C_LEAVES = "function_definition struct_specifier union_specifier enum_specifier type_definition"
_JVM_CONTAINERS = "class_declaration interface_declaration enum_declaration record_declaration"

_PYTHON = Language(
    "python",
    "tree_sitter_python",
    containers=_types("class_definition"),
    leaves=_types("function_definition"),
    wrappers=_types("decorated_definition"),
)
_JAVA = Language(
    "java",
    "tree_sitter_java",
    containers=_types(f"{_JVM_CONTAINERS} annotation_type_declaration"),
    leaves=_types("method_declaration constructor_declaration compact_constructor_declaration"),
    transparent=_types("enum_body_declarations"),
)
_KOTLIN = Language(
    "kotlin",
    "tree_sitter_kotlin",
    containers=_types("class_declaration object_declaration companion_object"),
    leaves=_types("function_declaration secondary_constructor"),
)
_JAVASCRIPT = Language(
    "javascript",
    "tree_sitter_javascript",
    containers=_types("class_declaration class"),
    leaves=_types(_SCRIPT_LEAVES),
    wrappers=_types(_SCRIPT_WRAPPERS),
)
_TYPESCRIPT = Language(
    "typescript",
    "tree_sitter_typescript",
    containers=_types(_TYPED_CONTAINERS),
    leaves=_types(_TYPED_LEAVES),
    wrappers=_types(_TYPED_WRAPPERS),
    function="language_typescript",
)
_TSX = Language(
    "tsx",
    "tree_sitter_typescript",
    containers=_types(_TYPED_CONTAINERS),
    leaves=_types(_TYPED_LEAVES),
    wrappers=_types(_TYPED_WRAPPERS),
    function="language_tsx",
)
_GO = Language("go", "tree_sitter_go", leaves=_types("function_declaration method_declaration type_declaration"))
_RUST = Language(
    "rust",
    "tree_sitter_rust",
    containers=_types("impl_item trait_item mod_item"),
    leaves=_types("function_item struct_item enum_item union_item macro_definition function_signature_item"),
)
_C = Language("c", "tree_sitter_c", leaves=_types(_C_LEAVES), transparent=_types(_PREPROCESSOR))
_CPP = Language(
    "cpp",
    "tree_sitter_cpp",
    containers=_types("class_specifier struct_specifier namespace_definition"),
    leaves=_types("function_definition union_specifier enum_specifier type_definition concept_definition"),
    wrappers=_types("template_declaration"),
    transparent=_types(_PREPROCESSOR),
)
_CSHARP = Language(
    "csharp",
    "tree_sitter_c_sharp",
    containers=_types(f"{_JVM_CONTAINERS} struct_declaration namespace_declaration"),
    leaves=_types(
        "method_declaration constructor_declaration destructor_declaration operator_declaration delegate_declaration "
        "local_function_statement"
    ),
    wrappers=_types("global_statement"),
)
_RUBY = Language(
    "ruby",
    "tree_sitter_ruby",
    containers=_types("class module singleton_class"),
    leaves=_types("method singleton_method"),
)
_PHP = Language(
    "php",
    "tree_sitter_php",
    containers=_types("class_declaration interface_declaration trait_declaration enum_declaration"),
    leaves=_types("function_definition method_declaration"),
    transparent=_types("namespace_definition compound_statement"),
    function="language_php",
)
_SHELL = Language("bash", "tree_sitter_bash", leaves=_types("function_definition"))
_TERRAFORM = Language("hcl", "tree_sitter_hcl", leaves=_types("block"), transparent=_types("body"))
_POWERSHELL = Language(
    "powershell",
    "tree_sitter_powershell",
    containers=_types("class_statement"),
    leaves=_types("function_statement class_method_definition enum_statement"),
    transparent=_types("statement_list"),
)

_WITH_GRAMMAR = {
    _PYTHON: ".py .pyi .pyw",
    _JAVA: ".java",
    _KOTLIN: ".kt .kts",
    _JAVASCRIPT: ".js .mjs .cjs .jsx",
    _TYPESCRIPT: ".ts .mts .cts",
    _TSX: ".tsx",
    _GO: ".go",
    _RUST: ".rs",
    _C: ".c .h",
    _CPP: ".cpp .cc .cxx .hpp .hh .hxx",
    _CSHARP: ".cs",
    _RUBY: ".rb .rake",
    _PHP: ".php",
    _SHELL: ".sh .bash .zsh",
    _TERRAFORM: ".tf .tfvars .hcl",
    _POWERSHELL: ".ps1 .psm1",
}
_WITHOUT_GRAMMAR = {
    "sql": ".sql",
    "scala": ".scala .sc",
    "groovy": ".groovy .gradle",
    "lua": ".lua",
    "perl": ".pl .pm",
    "r": ".r",
    "swift": ".swift",
    "dart": ".dart",
    "elixir": ".ex .exs",
    "erlang": ".erl .hrl",
    "clojure": ".clj",
    "haskell": ".hs",
    "protobuf": ".proto",
    "graphql": ".graphql",
    "batch": ".bat .cmd",
    "css": ".css .scss .less",
    "vue": ".vue",
    "promql": ".promql",
    "rego": ".rego",
    "bicep": ".bicep",
}
LANGUAGES = {
    **{ending: language for language, endings in _WITH_GRAMMAR.items() for ending in endings.split()},
    **{ending: Language(name) for name, endings in _WITHOUT_GRAMMAR.items() for ending in endings.split()},
}
"""By the extension of a file's name. What has no grammar becomes code blocks."""
