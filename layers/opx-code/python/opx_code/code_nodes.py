"""Node types of tree-sitter grammars that matter for the graph, and names of standard libraries. Data only: no imports.

Node types hardly ever have two meanings in two grammars, so that one set serves all languages; exceptions are handled in
`code_reading`.
"""

from __future__ import annotations

import re


def _types(names: str) -> frozenset[str]:
    return frozenset(names.split())


CLASSES = _types(
    "class_definition class_declaration abstract_class_declaration interface_declaration enum_declaration "
    "record_declaration annotation_type_declaration object_declaration class_specifier struct_specifier "
    "struct_declaration struct_item enum_item union_item trait_item impl_item type_spec trait_declaration class module "
    "class_statement"
)
FUNCTIONS = _types(
    "function_definition function_declaration generator_function_declaration method_declaration method_definition "
    "constructor_declaration compact_constructor_declaration function_item function_signature_item function_signature "
    "method_signature method singleton_method function_statement class_method_definition method_elem"
)
FUNCTION_VALUES = _types("arrow_function function_expression generator_function function")
HOLDERS = _types("variable_declarator public_field_definition field_definition")
"""Node types that name the function within them."""

HERITAGE = _types(
    "superclass super_interfaces extends_interfaces delegation_specifiers class_heritage extends_type_clause "
    "base_class_clause base_list base_clause class_interface_clause trait_bounds argument_list"
)
CALLS = _types(
    "call call_expression method_invocation object_creation_expression new_expression invocation_expression "
    "member_call_expression nullsafe_member_call_expression scoped_call_expression function_call_expression "
    "command invokation_expression composite_literal struct_expression constructor_invocation"
)
CREATIONS = _types(
    "object_creation_expression new_expression composite_literal struct_expression constructor_invocation"
)
IMPORTS = _types(
    "import_statement import_from_statement import_declaration import use_declaration using_directive "
    "namespace_use_declaration"
)
SCRIPTS = frozenset(("javascript", "typescript", "tsx"))
SCRIPT_IMPORTS = _types("lexical_declaration variable_declaration")
"""Node types that may be `const x = require("x")`."""

DECLARATIONS = _types(
    "field_declaration formal_parameter local_variable_declaration class_parameter parameter property_declaration "
    "required_parameter optional_parameter public_field_definition variable_declarator parameter_declaration var_spec "
    "short_var_declaration assignment typed_parameter typed_default_parameter let_declaration simple_parameter "
    "property_promotion_parameter variable_declaration"
)
"""Node types that may state the class of a variable."""

NAMES = _types(
    "identifier type_identifier field_identifier property_identifier simple_identifier constant name simple_name "
    "function_name word namespace_identifier destructor_name"
)

STANDARD_CLASSES = _types(
    "Any AnyObject ABC Array ArrayList BigDecimal BigInt BigInteger Bool Boolean Box Buffer Byte Char Character Class Clone "
    "Collections Collectors Console Convert Date DateTime Debug Decimal Default Dict Dictionary Double Duration Enum "
    "Enumerable Environment Err Error Exception File Files Float Function Generic Guid Hash HashMap HashSet IEnumerable "
    "Instant Int Integer Iterable Iterator Int32 Int64 JSON Kernel LinkedList List LocalDate LocalDateTime Logger Long Map "
    "Math MutableList MutableMap NamedTuple NaN None Number Object Objects Ok Option Optional Pair Path Paths Promise "
    "Protocol Proxy Queue Random Rc Reflect RegExp Regex Result RuntimeError RuntimeException Runnable Self Send Set Short "
    "Some Stack Stream String StringBuilder StringIO Struct Symbol Sync System Task Thread Throwable Time TimeSpan Tuple "
    "TypeError TypedDict UUID Unit Uint8Array Uri Url URL ValueError Vec Void WeakMap"
)
"""Classes of the languages' standard libraries: calls of them are left out."""

STANDARD_MODULES = {
    "javascript": _types(
        "assert async_hooks buffer child_process cluster console crypto dns events fs http http2 https module net os path "
        "perf_hooks process querystring readline stream string_decoder timers tls tty url util v8 vm worker_threads zlib"
    ),
    "go": _types(
        "archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt go "
        "hash html image io iter log maps math mime net os path plugin reflect regexp runtime slices sort strconv strings "
        "structs sync syscall testing text time unicode unique unsafe weak"
    ),
    "java": _types("java javax jdk sun kotlin kotlinx android androidx scala"),
    "rust": _types("std core alloc"),
    "csharp": _types("System Microsoft"),
}
"""First parts of standard module names by language; Python's are in `sys.stdlib_module_names`."""

COMMON_NAMES = _types(
    "add apply call clear close connect copy create delete execute exit filter find format get handle info init list load "
    "main map merge new next open parse post print put read remove render reset run save send set setup start stop update "
    "warn write"
)
"""Function names that are common in foreign modules: calls of them are left out."""

SELF = frozenset(("self", "this", "$this", "cls", "Self", "static"))
PARENT = frozenset(("super", "super()", "parent", "base"))

IDENTIFIER = re.compile(r"\$?[^\W\d][\w-]*[!?]?\Z")
SEPARATORS = re.compile(r"\s*(?:\?\.|!!\.|\?->|->|::|\.)\s*")
CLASS_SHAPED = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*\Z")
MAX_NAME = 120
