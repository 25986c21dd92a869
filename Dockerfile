# The steps are deploy/image/install.sh, which the tests run too.
FROM python:3.13.11-slim-trixie@sha256:2b9c9803c6a287cafa0a8c917211dddd23dcd2016f049690ee5219f5d3f1636e AS build
COPY pyproject.toml README.md LICENSE /source/
COPY requirements /source/requirements
COPY deploy /source/deploy
COPY app /source/app
COPY plugins /source/plugins
RUN /source/deploy/image/install.sh /source /opt/koordpy

FROM python:3.13.11-slim-trixie@sha256:2b9c9803c6a287cafa0a8c917211dddd23dcd2016f049690ee5219f5d3f1636e
# Nothing can be installed in a running container.
RUN rm -rf /usr/local/lib/python3.13/site-packages/pip* /usr/local/lib/python3.13/ensurepip /usr/local/bin/pip*
COPY --from=build /opt/koordpy /opt/koordpy
# Nothing is written outside of mounted volumes, so the root file system can be read-only.
ENV PATH=/opt/koordpy/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
USER 65532:65532
WORKDIR /tmp
EXPOSE 9876 9877 10251
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["koordpy", "health"]
ENTRYPOINT ["koordpy"]
CMD ["serve"]
