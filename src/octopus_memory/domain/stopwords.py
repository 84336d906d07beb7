"""Words that say nothing about what a text is about, by Snowball's names of the languages."""

from __future__ import annotations

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
aber alle als also am an auch auf aus bei bin bis bist da das dass dein dem den der des die dir du
durch ein eine einem einen einer er es für hab habe haben hast hat hatte ich ihm ihn ihr im in ist
ja kann man mein mich mir mit nach nein nicht noch nur oder sein sich sie sind so und uns vom von
vor war was weil wenn wer wie wir wird wo zu zum zur
"""

_FRENCH = """
ai as au aux avec avez avons ce ces cette dans de des du elle elles en es est et eu il ils j je l la
le les leur lui ma mais me mes moi mon n ne nos notre nous on ont ou où par pas pour qu que qui s sa
se ses si son sont sur ta te tes toi ton tu un une vos votre vous y à été être
"""

_SPANISH = """
a al algo como con cuando de del desde donde el ella ellas ellos en era eres es esta estaba este
esto estoy está fue ha han has hay he la las le les lo los me mi mis mucho muy más ni no nos o para
pero por porque que qué quien se ser si sin sobre soy su sus sí también te tengo ti tiene tu tus un
una unas uno unos y ya yo él
"""

STOPWORDS: dict[str, frozenset[str]] = {
    "english": frozenset(_ENGLISH.split()),
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
}
