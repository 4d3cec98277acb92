"""Analyses text to search terms, the same for every index and for documents and questions.

Operations text is full of identifiers, which ordinary analyzers either cut up or leave whole. Here each compound is
kept whole and split into its parts: `moduleControllerCreate` gives `modulecontrollercr`, `modul`, `control`, `creat`;
`hook.player.connected`, `hook-player-connected` and `hookPlayerConnected` share one whole term. Words are stemmed with
Snowball, in English and in the text's own language; identifiers that are neither words nor compounds pass through it
unchanged. Chinese, Japanese and Korean are cut into overlapping pairs of characters, as Lucene's `CJKBigramFilter` does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, TypeVar

import Stemmer

# -- word lists of languages
#
# `STOP_WORDS` are left out of searches in their language. All of them, and those of `KNOWN_BY`, are evidence of a
# language; a word of several languages is that much less evidence of each.

# ruff: noqa: SIM905 - one word a line would be pages


STOP_WORDS: dict[str, frozenset[str]] = {
    "en": frozenset(
        """a an and are as at be been but by can do for from has have if in into is it its no not of on or such that the
        their then there these they this to was were will with arent cant couldnt didnt doesnt dont hadnt hasnt havent im isnt
        shouldnt wasnt werent wont wouldnt""".split()
    ),
    "de": frozenset(
        """aber alle als also am an auch auf aus bei beim bis da damit dann das dass dem den der des die dies diese
        diesem diesen dieser dieses doch du durch ein eine einem einen einer eines er es für hat haben hier ich ihr ihre
        im in ist ja kann können man mehr mein mich mir mit muss müssen nach nicht noch nur ob oder ohne sein seine sich
        sie sind so soll sollte sollten über um und uns unser unsere unter vom von vor war waren warum was wenn wer
        werden wie wieder wird wir wo wurde wurden zu zum zur zwischen""".split()
    ),
    "fr": frozenset(
        """à au aux avec avons avoir ce ceci cela ces cet cette ceux comme comment dans de depuis des donc dont du elle
        elles en entre est et été être eux fait faire faut il ils je la le les leur leurs lors lorsque mais me même mes
        moi mon ne nos notre nous on ont ou où par pas plus pour pourquoi peut qu quand que quel quelle quels quelles
        qui quoi sa sans se ses si son sont sous sur ta te tes toi ton tous tout toute toutes très tu un une vers vos
        votre vous y""".split()
    ),
    "es": frozenset(
        """a al algo ante aquí así aunque cada como cómo con contra cual cuál cuales cuando cuándo de del desde donde
        dónde durante e el ella ellos en entre era es esa ese eso esta está están estas este esto estos fue ha hace
        hacer hacia han hasta hay la las le les lo los más me mi mientras mis muy nada ni no nos nosotros nuestra nuestro
        o para pero por porque puede pueden que qué quien quién se según ser si sí sido sin sobre son su sus también
        tiene tienen todas todo todos tras tu tus un una unas uno unos y ya""".split()
    ),
    "it": frozenset(
        """a ad agli ai al alla alle allo anche ancora che chi ci come con cosa cui da dagli dai dal dalla dalle dei del
        della delle dello deve devono di dopo dove due e è ed era fa fare gli ha hanno i il in io la le lo loro ma mai me
        mi mio nei nel nella nelle nello noi non nostra nostro o ogni per perché più può possono prima qual quale quali
        quando quanto quella quello questa queste questi questo se sei senza si sia sono sta su sua sue sui sul sulla
        sulle suo tra tutte tutti tutto un una uno vi viene voi""".split()
    ),
    "pt": frozenset(
        """a à ao aos as às até cada com como contra da das de dela dele depois desde deve do dos e é ela ele eles em
        entre era essa esse esta está estão estas este estes eu faz fazer foi há isso isto já lhe mais mas me mesmo meu
        minha muito na não nas nem no nos nós nossa nosso num numa o onde os ou para pela pelas pelo pelos pode podem
        por porque qual quais quando que quem são se sem ser seu seus só sob sobre sua suas também tem têm todas todos
        tudo um uma você vocês""".split()
    ),
}
"""English: without them the hybrid's nDCG@10 was .002 higher on the labelled set, and long questions are faster."""

ELISIONS: dict[str, frozenset[str]] = {
    "fr": frozenset("c d j jusqu l lorsqu m n puisqu qu quoiqu s t".split()),
    "it": frozenset(
        "all c d dall dell gl l nell quell quest sull un bell c com cos d dov m n s sant t tutt v anch quant".split()
    ),
}
"""Elided words before an apostrophe that are no part of the word behind it."""

KNOWN_BY: dict[str, frozenset[str]] = {
    "en": frozenset(
        """i we you he she my our your his her who what why when where which how does did doing done should would could
        must may might am being having had after before during while than more most some any all only also out
        up down over under again about because until each other same too very just get gets getting got use
        using used need needs fix fixing failed failing fails failure error errors full disk disks node nodes
        pod pods slow server servers service services high low alert alerts restart restarted restarting memory
        usage cannot won unable not found timeout timed connection connections refused database backup backups
        expired certificate queue host hosts network running run runs stuck missing crash crashing crashes
        deploy deployment cluster job jobs user users log logs new old set one two first last now rate request
        requests response time latency file files storage access denied write read check start started stop
        stopped still keeps keep wrong broken dead die dies dying kill killed login upgrade update updates
        rollback release build test at due least machine machines requires required apt replica replicas delay
        delayed lag backend backends unhealthy reboot reboots many much there here data code install installing
        restore message messages core path base open shell command commands source sync public export delete
        change line list page switch call copy environment configure create""".split()
    ),
    "de": frozenset(
        """abbruch abgelaufen abgelaufene ablauf absturz abgestürzt alarm alarme anfrage anfragen anmeldung anmelden
        antwort antwortet antworten arbeitsspeicher ausfall ausgefallen auslastung aufträge auftrag beheben behoben
        benutzer bereitstellung betrieb betriebssystem bleibt daten datei dateien datenbank datenträger dienst dienste
        drucker durchsatz erneuern erreichbar erhöht falsch fehlgeschlagen fehler fehlerhaft fehlt festplatte
        festplatten findet funktioniert gelöscht gesperrt gestoppt gibt hoch hohe hoher hängt kein keine keinen keiner
        knoten konto langsam läuft lastverteiler leer lief löschen meldet meldung netz netzwerk neu neustart neustarten
        passwort platz platte protokoll prozess prüfen rechner rechte replikation rückgängig schlägt schlüssel
        schnittstelle sehr sicherung sicherungen speicher speicherplatz sperre startet starten stau steht störung
        stürzt unterbrochen ursache verbindung verbindungen verfügbar verloren verweigert verzögerung viel viele voll
        volle voller vollgelaufen warteschlange wartung warnung wechseln wiederherstellen wiederherstellung zeit
        zeitüberschreitung zertifikat zertifikate zertifikats zugriff zu zurück zurücksetzen überlastet""".split()
    ),
    "fr": frozenset(
        """accès alerte alertes arrêt arrêté arrêter basculement bloqué bloquée bloquées certificat certificats
        charge coupure connexion connexions délai démarre démarrer démarrage dépassé dépannage déploiement disque
        disques disponible données dossier droits échec échoue échoué élevé élevée erreur erreurs espace exécution
        expiration expiré expirée faible fichier fichiers file files fonctionne fonctionnement heure hors indisponible
        interrompu journal journaux lent lente lenteur machine mémoire messages mise jour mot noeud noeuds nœud nœuds
        ordinateur panne passe perdu perdue plein pleine pleins problème processus redémarrage redémarre redémarrer
        refusé refusée renouveler répond répondent réponse requête requêtes réseau restaurer restauration retard
        réplication sauvegarde sauvegardes saturé saturée serveur serveurs service supprimer supprimé surcharge système
        temps tombe trop utilisateur utilisateurs utilisation vérifier verrou verrouillé""".split()
    ),
    "es": frozenset(
        """acceso actualización agotada agotado agotó alerta alertas almacenamiento alta alto apagado archivo archivos
        arranca arrancar arranque autenticación bloqueada bloqueado caducado caída caído caídas carga certificado
        certificados clave cola colas conexión conexiones contraseña copia copias consulta consultas corte cuenta
        datos denegado denegada despliegue detenido disco discos disponible espacio error errores escritura
        expirado fallo falla fallos fallan fichero funciona huérfanos iniciar inicio lenta lento lentas llena lleno
        llenó mensaje mensajes memoria nodo nodos perdida perdido permiso permisos proceso procesos puerto red
        registro registros reiniciar reinicia reinicio renovar responde responden respaldo respuesta restaurar
        retraso réplica replicación saturada saturado seguridad servicio servicios servidor servidores sistema
        solicitud solicitudes tarda tiempo uso usuario usuarios vencido ventana""".split()
    ),
    "it": frozenset(
        """accesso accessi aggiornamento allarme allarmi alto archivio arresta arrestato avvia avviare avvio
        bloccata bloccato bloccati carico certificato certificati coda connessione connessioni consumo dati
        disco dischi disponibile disponibilità errore errori esaurita esaurito fallisce fallito falliti fallita
        file funziona funzionano guasto interrotto lenta lento lenti libero manca memoria messaggi messaggio nodi
        nodo negato negata occupato password pieno piena pieni permessi processo processi raggiungibile rallenta
        rallentamento replica rete richiesta richieste rifiutata rifiutato rilascio riavvia riavviare riavvio
        rinnovare ripristinare ripristino risponde rispondono risposta ritardo ruolo salvataggio scaduta scaduto
        scaduti scade scrittura server servizio servizi sistema sovraccarico spazio spento tempo troppo troppi
        utente utenti utilizzo""".split()
    ),
    "pt": frozenset(
        """acesso alerta alertas alta alto arquivo arquivos atraso atualização autenticação banco bloqueada
        bloqueado caiu carga certificado certificados cheia cheio cheios chave cópia conexão conexões consulta
        consultas conta dados disco discos disponível desempenho erro erros escrita esgotada esgotado esgotou espaço
        expirado expirada expirou falha falhas falham falhou ficheiro ficheiros fila filas funciona implantação
        indisponível iniciar inicia lenta lento lentas lentidão limpar memória mensagem mensagens negada negado nó nós
        parado parada parou perdida perdido permissão permissões processo processos porta rede recusada registros
        reiniciar reinicia reinício renovar replicação réplica responde respondem resposta restaurar senha servidor
        servidores serviço serviços sistema sobrecarga solicitação solicitações tempo trava travado travada uso
        usuário usuários utilizador vencido""".split()
    ),
    "nl": frozenset(
        """aan aangezien al als bij dan dat de deze die dit door dus een en er geen had heeft het hij hoe iets ik in is
        je kan kunnen maar meer met moet moeten na naar niet niets nog nu of om omdat onder ons onze ook op over reeds
        schijf te tegen tijdens toen tot u uit van veel vol voor waarom waren was wat weer wel werd wij worden wordt
        zal ze zich zij zijn zo zonder zou""".split()
    ),
    "sv": frozenset(
        """alla att av bara blev blir de den denna detta det du där efter eller en ett för från får han har hur här inte
        jag kan kommer man med men mer mot mycket måste ni nu när och också om på samt sedan sig sin ska skulle som så
        till under upp ut utan vad var vara varför vi vid vill är över""".split()
    ),
    "da": frozenset(
        """af alle at blev bliver da de den denne der det dette du efter eller en er et for fra få han har havde hvad
        hvis hvor hvordan hvorfor ikke jeg kan kun man med meget men mere mod når nu og også om op over på skal som så
        til ud uden under var ved vi vil være""".split()
    ),
    "no": frozenset(
        """alle at av ble blir da de den denne der det dette du etter eller en er et etter for fra få han har hadde hva
        hvis hvor hvordan hvorfor ikke jeg kan kun man med meget men mer mot noe når nå og også om opp over på skal som
        så til ut uten under var ved vi vil være""".split()
    ),
    "pl": frozenset(
        """aby ale być był była było co czy dla do gdy gdzie go i ich jak jako jest jeszcze już każdy które który lub ma
        może można na nie niego o od oraz po pod przed przez przy są się tak tego tej ten to tych tylko tym w we wszystko
        z za ze że""".split()
    ),
    "cs": frozenset(
        """aby ale ani až bez bude byl byla bylo být co do i jak jako je jeho jejich jen již jsem jsou k kde když která
        které který má může na nad nebo není o od po pod podle pro proto před při s se si tak také to tím tom u v ve však
        z za ze že""".split()
    ),
    "ro": frozenset(
        """a acest această al ale am are au ca că când care ce cele cu cum de din după este eu face fi fost în într la
        lui mai nu o oricare pe pentru peste prin sau se și sunt să toate trebuie un una unei unui""".split()
    ),
    "tr": frozenset(
        """ama ancak bir bu çok da daha de değil diye en gibi hem her için ile ise kadar ki mi mı ne neden nasıl o olan
        olarak oldu olduğu olur sonra şu tarafından tüm var ve veya ya yok""".split()
    ),
    "fi": frozenset(
        """ei ennen että hän ja jo joka jos jotka kanssa kuin kun mikä miksi minä mutta mukaan myös ne niin nyt oli
        olla on ovat saa se sekä sen siitä sitten tai tämä vain voi vuonna""".split()
    ),
    "hu": frozenset(
        """a az azt csak de egy el és ez ezt hogy ha is kell ki lehet már még meg mert mint nem nincs olyan s volt van
        vagy""".split()
    ),
    "ca": frozenset(
        """al als amb aquest aquesta com de del dels des dins el els em en és està fer ha han hi i la les més molt no o
        on per però perquè pot què quan sense ser seu seva si són també té tot un una uns va van""".split()
    ),
}
"""Frequent words of the languages that are detected, and for six of them words of operations' questions."""


# -- analysis

ANALYZER_VERSION = "3"
"""Part of an index's fingerprint: terms of different versions must not be mixed."""

ENGLISH = ("en",)

STEMMERS = {"en": "english", "de": "german", "fr": "french", "es": "spanish", "it": "italian", "pt": "portuguese"}
"""Languages whose words are stemmed, and Snowball's names of their algorithms."""

_RUN = re.compile(r"[^\W_]+(?:[._\-'’][^\W_]+|_+[^\W_]+)*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_SEPARATORS = re.compile(r"[._\-'’]+")
_CASE_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+s?(?![a-z])|[A-Z]?[^\WA-Z_]+|[^\W_]+")
_CJK_LETTERS = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u30ff\u3105-\u312f\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003fffd"
)
_LONGEST_CACHED = 64
_MOST_CACHED = 1 << 16

T = TypeVar("T")


def analyze(text: str, languages: Sequence[str] = ENGLISH) -> list[str]:
    """The terms of `text` in these languages, in order, a compound's whole term before its parts, without stop words.

    A pure function.
    """
    known = _known_terms(_stemmed(languages))
    return list(chain.from_iterable(map(known.__getitem__, _pieces(text))))


def stems(text: str, languages: Sequence[str] = ENGLISH) -> Iterator[tuple[str, ...]]:
    """The words of `text` in order, each as its distinct terms in the languages, the first language's first.

    A word that is a stop word of the first language is left out, and so is a language without a stemmer.
    """
    known = _known_words(_stemmed(languages))
    return chain.from_iterable(map(known.__getitem__, _pieces(text)))


def _stemmed(languages: Sequence[str]) -> tuple[str, ...]:
    return tuple(language for language in languages if language in STEMMERS) or ENGLISH


def _pieces(text: str) -> list[str]:
    """Pieces of the text, each of which has whole runs: of ASCII what is between characters that no run has, as that takes a
    third of the time of finding the runs."""
    if text.isascii():
        return text.translate(_apart()).split()
    return _RUN.findall(unicodedata.normalize("NFKC", text))


@cache
def _apart() -> dict[int, str]:
    """Blanks for the ASCII characters that no run has."""
    return {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "._-'")}


def split_identifiers(text: str) -> str:
    """Splits camelCase words, for models whose tokenizer lowercases first: `KubePod` -> `Kube Pod`."""
    return _WORD.sub(lambda match: " ".join(_split_case(match.group())), text)


@cache
def cjk_runs() -> re.Pattern[str]:
    """Finds runs of Chinese, Japanese and Korean, which have no blanks between words, or not at word boundaries.
    Compiled at first use: that takes a while."""
    return re.compile(f"([{_CJK_LETTERS}]+)")


def folded(word: str) -> str:
    """`word` without the accents of Latin letters: `cámara` -> `camara`."""
    return word if word.isascii() else "".join(map(_folded_letter, word))


def _words_of(piece: str, languages: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    runs = [piece] if piece.isalnum() else _RUN.findall(piece)
    if len(runs) == 1:
        return _words_of_run(runs[0], languages)
    return tuple(word for run in runs for word in _words_of_run(run, languages))


def _words_of_run(run: str, languages: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The words of one run of letters and digits that `.`, `_`, `-` or an apostrophe may join.

    Terms are distinct, except pairs of characters, which come from text without blanks.
    """
    if languages == ENGLISH and _is_plain(run):
        term = _term(run.lower(), "en")
        return ((term,),) if term else ()
    if run.isascii() or not cjk_runs().search(run):
        return tuple(dict.fromkeys(_terms(_units(run, languages), languages)))
    words: list[tuple[str, ...]] = []
    for at, piece in enumerate(cjk_runs().split(run)):
        if at % 2:
            words.extend((pair,) for pair in _pairs(piece))
        elif piece.strip("._-'’"):
            words.extend(dict.fromkeys(_terms(_units(piece.strip("._-'’"), languages), languages)))
    return tuple(words)


def _terms_of(piece: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(_words_of(piece, languages)))


class _Known(dict[str, T]):
    """Results of `compute` by piece, kept for those that are short. A dictionary, as many pieces are looked up in it at once,
    without a call for each. Safe to share between threads."""

    def __init__(self, compute: Callable[[str], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, piece: str) -> T:
        found = self._compute(piece)
        if len(piece) <= _LONGEST_CACHED:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[piece] = found
        return found


@cache
def _known_words(languages: tuple[str, ...]) -> _Known[tuple[tuple[str, ...], ...]]:
    return _Known(lambda piece: _words_of(piece, languages))


@cache
def _known_terms(languages: tuple[str, ...]) -> _Known[tuple[str, ...]]:
    return _Known(lambda piece: _terms_of(piece, languages))


def _pairs(run: str) -> Iterator[str]:
    """All pairs of neighbouring characters; a single character alone."""
    if len(run) == 1:
        yield run
    for at in range(len(run) - 1):
        yield run[at : at + 2]


def _units(run: str, languages: tuple[str, ...]) -> Iterable[str]:
    """The distinct units of a run that are stemmed: the whole, its pieces and their camelCase parts, casefolded."""
    if _is_plain(run):
        return [run.lower()]  # its pieces and parts are itself
    if run[-2:].casefold() in ("'s", "’s"):
        run = run[:-2]
    run = _without_elision(run, languages)
    pieces = [piece for piece in _SEPARATORS.split(run) if piece]
    if len(pieces) > 1 and all(piece.isdigit() for piece in pieces):
        return [".".join(pieces)]  # an address or a version: its numbers alone mean nothing
    whole = "".join(pieces).casefold()
    if "'" in run or "’" in run:
        return [whole]
    parts = (part.casefold() for piece in pieces for part in (piece, *_split_case(piece)))
    return dict.fromkeys([whole, *parts])


def _is_plain(run: str) -> bool:
    """True for a number and for a word without separators, accents and camelCase."""
    return run.isascii() and (run.isdigit() or (run.isalpha() and (run.islower() or run.istitle() or run.isupper())))


def _without_elision(run: str, languages: tuple[str, ...]) -> str:
    """Removes elided words of the languages: `l'erreur` -> `erreur`."""
    before, apostrophe, behind = run.replace("’", "'").partition("'")
    if apostrophe and any(before.casefold() in ELISIONS.get(language, ()) for language in languages):
        return behind
    return run


def _terms(units: Iterable[str], languages: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for unit in units:
        first = _term(unit, languages[0])
        if len(languages) == 1 and first:
            yield (first,)
        elif first:
            others = (_term(unit, language) for language in languages[1:])
            yield tuple(dict.fromkeys((first, *filter(None, others))))


def _term(unit: str, language: str) -> str:
    """The term of a word in a language; "" for its stop words, which for English are listed as terms."""
    plain = folded(unit)
    if language == "en":
        term = _stem(plain, language)
        return "" if term in STOP_WORDS["en"] else term
    return "" if plain in _folded_stop_words(language) else folded(_stem(unit, language))


def stem(word: str, language: str) -> str:
    """The stem of a single word in a language of `STEMMERS`, without case and accents."""
    return folded(_stem(word.casefold(), language))


def _split_case(piece: str) -> list[str]:
    """Splits at case: `KubePod` -> Kube, Pod. A single letter stays with its neighbour: vSphere, IPv4 and PVs are whole."""
    if piece.islower() or piece.isupper() or piece.isdigit():
        return [piece]
    parts: list[str] = []
    carried = ""
    for found in _CASE_PARTS.findall(piece):
        part = carried + found
        carried = part if len(part) == 1 else ""
        if not carried:
            parts.append(part)
    if carried and parts:
        parts[-1] += carried
    return parts or [piece]


def _stem(word: str, language: str) -> str:
    if len(word) <= 2 or word[0].isdigit():
        return word
    return str(_stemmer(language).stemWord(word))


@cache
def _stemmer(language: str) -> Any:
    return Stemmer.Stemmer(STEMMERS[language], 0)


@cache
def _folded_stop_words(language: str) -> frozenset[str]:
    return frozenset(map(folded, STOP_WORDS[language]))


@lru_cache(4096)
def _folded_letter(letter: str) -> str:
    """The base letter without accents if it is one of a to z, else the letter."""
    base = unicodedata.normalize("NFD", letter)[0]
    return base if base.isascii() and base.isalpha() else _BARRED.get(letter, letter)


_BARRED = {"ø": "o", "đ": "d", "ł": "l", "ı": "i", "ħ": "h", "æ": "ae", "œ": "oe"}
"""Casefolded letters that Unicode doesn't decompose."""
