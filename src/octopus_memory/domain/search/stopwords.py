"""Stopwords by language, under Snowball's names of the languages."""

from __future__ import annotations

from .terms import fold

_ENGLISH = """
a about again all also am an and any are as at be been being both but by can could d did do does
doing don down each few for from had has have having he her here him his how i if in into is it its
just ll m may me might more most must my no nor not now o of off on or other our out over own re s
same shall she should so some such t than that the their them then there these they this those to
too under up ve very was we were what when where which who whom whose why will with would y you your
yours mine ours hers theirs isn aren wasn weren hasn haven hadn doesn didn won wouldn couldn
shouldn gonna wanna hey hi hello yeah yes oh wow ok okay
"""

_GERMAN = """
ab aber alle allem allen aller alles als also am an andere anderem anderen anderer anderes ans auch
auf aus außerdem bei beide beiden beim bereits bevor bin bis bist bitte da dabei dadurch dafür
dagegen daher damit danach danke dann daran darauf daraus darf darfst darin darüber darum das dass
daß davon dazu dein deine deinem deinen deiner deines dem demnach den denen denn dennoch der deren
derer des deshalb dessen dich die dies diese dieselbe diesem diesen dieser dieses dir doch dort du
durch dürfen dürft dürfte eben ebenso eigentlich ein eine einem einen einer eines einige einigen
einiger einiges einmal entweder er es etwa etwas euch euer eure eurem euren eurer falls für gab
ganz gar gegen gehabt genau gerade gern gerne gewesen geworden gibt ging hab habe haben habt halt
hallo hast hat hatte hatten hattest hattet hätte hätten hättest her hi hier hin hinter ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer ihres im immer in indem ins irgend irgendwas irgendwie irgendwo
irgendwann ist ja je jede jedem jeden jeder jedes jedoch jemand jemanden jene jenem jenen jener
jenes jetzt kann kannst kein keine keinem keinen keiner keines könnt könnte könnten könntest können
konnte konnten lassen lass mal man manche manchem manchen mancher manches mehr mein meine meinem
meinen meiner meines mich mir mit möchte möchten möchtest mögen mag magst muss musst müssen müsste
müsst musste mussten nach nachdem nein neben nicht nichts nie noch nochmal nun nur ob obwohl oder
oft ohne per schon sehr sein seine seinem seinen seiner seines seit seid selber selbst sich
sie sind so sogar solch solche solchem solchen solcher soll sollen sollst sollt sollte sollten
solltest somit sondern sonst sowie soviel trotzdem über überhaupt um und uns unser unsere unserem
unseren unserer unseres unter vielleicht vom von vor wann war waren warst wart wäre wären wärst
warum was weder wegen weil welche welchem welchen welcher welches wem wen wenig wenn wer werde
werden werdet weshalb wessen wie wieder wieso wieviel viel viele vielen will willst wir wird wirst
wo wobei wodurch wofür woher wohin wohl wollen wollt wollte wollten womit woran worauf woraus worin
worüber worum wovon wozu würde würden würdest wurde wurden während zu zum zur zwar zwischen
"""

_FRENCH = """
a afin ai aie aient ainsi ais ait alors apres après as au aucun aucune aujourd auquel aura aurai
auraient aurais aurait auras aurez aurons auront aussi autre autres aux auxquels avaient avais avait
avant avec avez aviez avions avoir avons ayant beaucoup bien bonjour bonsoir c ça car ce ceci cela
celle celles celui ces cet cette ceux chaque chez ci combien comme comment d dans de déjà depuis
des desquelles desquels dès dit doit dois doivent donc dont du duquel durant elle elles en encore
entre envers es est et étaient étais était étant étante été êtes être étions eu eue eues eurent eus
eut eux eût fait faire fais faites font fallait faudra faut furent fus fut fût hein hélas hors hui
il ils j je jusqu jusque l la là laquelle le lequel les lesquelles lesquels leur leurs lors lorsque
lorsqu lui m ma mais malgré me même mêmes merci mes mien mienne miens miennes mieux moi moins mon n
ne ni non nos notre nôtre nous on ont or ou où oui outre par parce parfois parmi pas pendant peu
peut peuvent peux plus plusieurs plutôt pour pourquoi pourra pourrait pourrais pouvait pouvez
pouvoir pouvons presque pu puis puisque puisqu qu quand quant que quel quelle quelles quelqu quelque
quelques quels qui quoi rien s sa salut sans sauf se sera serai seraient serais serait seras serez
serons seront ses seulement si sien sienne siens siennes sinon soi soient sois soit sommes son sont
sous soyez soyons suis sur surtout svp ta tant te tel telle telles tels tes tien tienne toi ton
toujours tous tout toute toutefois toutes très trop tu t un une unes uns va vais vas vers veut
veux veulent veuillez voici voilà voir vois vont vos votre vôtre voudrais voudrait voulait voulez
vouloir voulons vous vu y à ô
"""

_SPANISH = """
a acá además adónde ahí ahora al algo alguien algún alguna algunas alguno algunos allá allí ambos
ante antes aquel aquella aquellas aquello aquellos aquí así aún aunque bajo bastante bien buenas
buenos cada casi como cómo con conmigo contigo contra cosa cosas cual cuál cuáles cuales cualquier
cuando cuándo cuanta cuánta cuantas cuántas cuanto cuánto cuantos cuántos cuya cuyas cuyo cuyos da
dan dar de debe deben debería debo del demás dentro desde después di dice dio donde dónde dijo
durante e el él ella ellas ello ellos embargo en encima entonces entre era erais éramos eran eras
eres es esa ésa esas ese ése eso esos esta está ésta estaba estabais estábamos estaban estabas
estado estáis estamos están estar estará estaría estas estás éstas este esté éste esto estos éstos
estoy estuve estuvieron estuvo favor fue fuera fueron fuese fui fuimos fuiste gracias gran ha había
habían habías haber habéis habrá habría hace hacen hacer hacia haciendo hago han has hasta hay haya
hayan he hecho hemos hice hizo hola igual incluso ir jamás la las le les lo los luego más mas me
menos mi mí mía mías mientras mío míos mis misma mismas mismo mismos mucha muchas mucho muchos muy
nada nadie ni ningún ninguna ninguno no nos nosotras nosotros nuestra nuestras nuestro nuestros
nunca o os otra otras otro otros para pero poca pocas poco pocos podemos poder podía podría podrías
por porque pude puede pueden puedes puedo pues que qué quien quién quienes quiénes quiere quieres
quiero quisiera sé se sea sean según ser será serán sería si sí sido siempre siendo sin sino sobre
sois solamente solo sólo somos son soy su sus suya suyas suyo suyos tal tales también tampoco
tan tanta tanto tantos te tendrá tendría tenemos tenéis tener tenga tengas tengo tenía tenían ti
tiene tienen tienes toda todas todavía todo todos tu tú tus tuve tuvo tuya tuyo u un una unas uno
unos usted ustedes va vais vamos van varias varios vas vaya veces ver vez vosotras vosotros voy
vuestra vuestras vuestro vuestros y ya yo
"""


LISTED: dict[str, frozenset[str]] = {
    "english": frozenset(_ENGLISH.split()),
    "german": frozenset(_GERMAN.casefold().split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
}
"""Stopwords as spelled, case-folded."""

STOPWORDS: dict[str, frozenset[str]] = {
    language: frozenset((*listed, *map(fold, listed))) for language, listed in LISTED.items()
}
"""Stopwords as spelled and without accents."""
