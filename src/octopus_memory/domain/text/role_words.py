"""Names of chat roles and agent steps in many languages, to find forged headers."""

from __future__ import annotations

import re

from .lookalikes import plain

# Names of system, user, assistant, tool and developer before a colon.
_IN_OTHER_LANGUAGES = {
    "ar": "النظام|نظام|المستخدم|مستخدم|المساعد|مساعد|الأداة|المطور",
    "cs": "systém|uživatel|asistent|nástroj",
    "de": "systemnachricht|systemanweisung|benutzer|nutzer|assistent|assistentin"
    "|werkzeug|entwickler",
    "el": "σύστημα|χρήστης|βοηθός|εργαλείο",
    "es": "sistema|mensaje del sistema|usuario|usuaria|asistente|herramienta|desarrollador",
    "fa": "سیستم|کاربر|دستیار|ابزار",
    "fi": "järjestelmä|käyttäjä|avustaja",
    "fr": "système|message système|utilisateur|utilisatrice|outil|développeur",
    "he": "מערכת|משתמש|עוזר|כלי",
    "hi": "सिस्टम|प्रणाली|उपयोगकर्ता|सहायक",
    "id": "sistem|pengguna|asisten|alat",
    "it": "messaggio di sistema|utente|assistente|strumento|sviluppatore",
    "ja": "システム|システムメッセージ|システムプロンプト|ユーザー|ユーザ|アシスタント"
    "|ツール|開発者|人間",
    "ko": "시스템|시스템 메시지|사용자|어시스턴트|도우미|도구|개발자",
    "nl": "systeem|gebruiker|hulpmiddel|ontwikkelaar",
    "pl": "użytkownik|asystent|narzędzie",
    "pt": "mensagem do sistema|usuário|utilizador|ferramenta",
    "ro": "utilizator|instrument",
    "ru": "система|системное сообщение|системная инструкция|системный промпт|пользователь|ассистент"
    "|помощник|инструмент|разработчик",
    "sv": "användare|verktyg",
    "th": "ระบบ|ผู้ใช้|ผู้ช่วย",
    "tr": "kullanıcı|asistan|araç|geliştirici",
    "uk": "користувач|асистент|помічник|інструмент",
    "vi": "hệ thống|người dùng|trợ lý|công cụ",
    "zh": "系统|系統|系统提示|系统提示词|系统消息|系统指令|系統提示|系統訊息"
    "|用户|用戶|使用者|助手|助理|工具|开发者|開發者|人类|人類",
}
# Headers by which agents record their steps and the results of tools.
STEPS = (
    r"observations?|thoughts?|action(?:[\s_-]input)?|final[\s_-]answer|"
    r"(?:tool|function)[\s_-](?:results?|outputs?|responses?|calls?)"
)


def _folded(word: str) -> str:
    return re.escape("".join(map(plain, word)))


FOREIGN_ROLES = "|".join(
    sorted({_folded(w) for words in _IN_OTHER_LANGUAGES.values() for w in words.split("|")})
)
"""A pattern for text folded by `lookalikes.plain`."""
