SwaggerUIBundle({ url: "/api/octopus/openapi.json", dom_id: "#api", deepLinking: true, tryItOutEnabled: true });
